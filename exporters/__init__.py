"""Where scores go: one module per destination, one payload for all of them.

Empty on purpose: importing a destination must never import another one's
client library.  Import the module you need, e.g. ``ragmeter.exporters.memory``.
"""
