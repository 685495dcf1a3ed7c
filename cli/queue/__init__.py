"""``ragmeter queue``: messages that wait to be scored outside the application, and dead letters."""
