"""Process-level tools: forks, retries, threads, bounded tables, a Redis."""
