"""``ragmeter spans``: the requests in recorded OTLP, and why one cannot be scored."""
