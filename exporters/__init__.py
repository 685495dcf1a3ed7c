"""Export scores: one module per destination, one payload for all of them.

Empty on purpose: importing a destination must not import another one's client library.  Import the module you
need, e.g. ``ragmeter.exporters.memory``.
"""
