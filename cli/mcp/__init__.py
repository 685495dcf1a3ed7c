"""``ragmeter mcp``: what `ragmeter serve` knows, as tools of the Model Context Protocol. It reads only."""
