"""Being a guest in somebody's process: errors contained, counts kept, nothing lost at its end."""
