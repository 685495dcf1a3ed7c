"""``ragmeter golden``: golden sets that live as long as the documents that they are about."""
