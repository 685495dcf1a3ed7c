"""``ragmeter worker``: scores published requests."""
