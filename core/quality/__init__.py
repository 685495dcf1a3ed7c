"""Estimates over many requests: sums, means with intervals, objectives, labels, gaps and conversations."""
