"""The pipeline of a request: one module per stage."""
