"""A server that speaks the OpenAI embeddings API, and misbehaves on request."""

from collections import deque

from json_server import JsonServer


def vector_of(text):
    """Return a vector that depends on the words of a text; the same words, the same direction."""
    numbers = [0.0] * 16
    for word in text.lower().replace("?", " ").replace(".", " ").split():
        numbers[sum(map(ord, word)) % 16] += 1.0
    return [*numbers, 0.1]


class EmbeddingServer(JsonServer):
    """The server; `url` is what to pass as ``base_url``.

    Attributes:
        script: Replies to send first, in order: (status, body, headers), or a function of the texts that
            returns the rows.
    """

    def __init__(self):
        super().__init__()
        self.script = deque()
        self.refused = ""

    def answer_to(self, body):
        if self.refused and any(self.refused in text for text in body["input"]):
            return 400, {"error": {"message": "input is too long", "code": None}}, {}
        if self.script:
            step = self.script.popleft()
            if callable(step):
                return 200, {"data": step(body["input"])}, {}
            return step
        return 200, {"data": rows(body["input"])}, {}

    @property
    def texts(self):
        return [body["input"] for _, _, body in self.requests]


def rows(texts):
    """Return the rows, last first: the API does not guarantee an order."""
    made = [{"index": n, "embedding": vector_of(text)} for n, text in enumerate(texts)]
    return made[::-1]
