"""Find knowledge gaps: topics that bad requests have in common, by words and counts alone."""
