"""``ragmeter label``: a person says on a terminal how good requests are."""
