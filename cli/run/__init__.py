"""``ragmeter run app.py``: a program unchanged, with its requests scored and shown on a page."""
