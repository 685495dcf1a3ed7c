"""Metrics without a judge: free, and computed for every request."""
