"""Knowledge gaps: what the questions that went badly have in common, found by words and counts alone."""
