"""Being a guest in the application's process: errors contained, counts kept, nothing lost at exit."""
