"""``ragmeter worker``: scores what applications have published."""
