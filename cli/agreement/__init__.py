"""``ragmeter agreement``: how far people and the judge agree, and people among themselves."""
