"""Check the meter's arguments, read settings from the environment, and find exporters by name."""
