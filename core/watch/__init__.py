"""Watch scores: detect a fallen mean or a drifted judge, and notify people."""
