"""The command ``ragmeter``: one folder per command, `app` with all their options."""
