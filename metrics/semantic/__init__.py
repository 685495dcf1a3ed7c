"""Metrics that compare meanings, by the vectors of an embedder. `ragmeter.metrics` has the public names."""
