"""``ragmeter run app.py``: a program as it is, with its requests scored, and shown where one looks."""
