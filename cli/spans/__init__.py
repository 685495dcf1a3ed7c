"""``ragmeter spans``: the requests in recorded OTLP, and the reasons why some cannot be scored."""
