"""An OpenAI-compatible endpoint and the way to it, for the judge and the embedder alike."""
