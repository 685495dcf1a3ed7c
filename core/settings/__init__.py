"""What a user sets: arguments of the meter checked, variables of the environment read, exporters by name."""
