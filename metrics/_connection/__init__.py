"""An OpenAI-compatible endpoint and the connection to it, for the judge and the embedder."""
