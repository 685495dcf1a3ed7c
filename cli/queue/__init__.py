"""``ragmeter queue``: what waits to be scored outside the application, and what could not be."""
