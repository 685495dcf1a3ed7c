"""Find chunks that lead to bad answers, are unused, contradict others, or are stale, from traffic."""
