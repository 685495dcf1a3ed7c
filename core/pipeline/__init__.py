"""The life of a request: one module per station, in the order in which it passes them."""
