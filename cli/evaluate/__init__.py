"""``ragmeter evaluate``: scores a data set offline with the metrics that score live requests."""
