"""What any part of a program needs from its process: forks, retries, threads, bounded tables, a Redis."""
