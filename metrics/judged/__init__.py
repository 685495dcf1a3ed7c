"""Metrics that use the judge: each question costs a call."""
