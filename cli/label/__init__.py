"""``ragmeter label``: a person rates requests on a terminal."""
