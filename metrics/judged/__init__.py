"""Metrics that ask the judge: each question costs a call."""
