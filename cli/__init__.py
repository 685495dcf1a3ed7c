"""The command ``ragmeter``: one folder per command that is more than one module."""
