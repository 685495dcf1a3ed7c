"""Metrics that need no judge: free, and computed for every request."""
