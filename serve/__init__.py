"""The server: takes telemetry that others send, finds the RAG requests in it and has them scored.

Needs the extra ``[serve]``.
"""
