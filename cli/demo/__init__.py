"""``ragmeter demo``: a real RAG application, scored live, with no key and no server."""
