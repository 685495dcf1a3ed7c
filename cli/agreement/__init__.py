"""``ragmeter agreement``: agreement between people and the judge, and among people."""
