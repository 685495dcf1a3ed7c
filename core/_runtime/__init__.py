"""Run inside the application's process: contain errors, keep counts, lose nothing at exit."""
