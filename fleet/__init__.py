"""Requests sent elsewhere to be scored: by another process, machine or fleet of workers."""
