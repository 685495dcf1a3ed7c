"""``ragmeter golden``: golden sets that stay valid when their documents are split differently."""
