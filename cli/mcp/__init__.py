"""``ragmeter mcp``: data of `ragmeter serve`, as tools of the Model Context Protocol. Read-only."""
