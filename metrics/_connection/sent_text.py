"""A text as it is sent: what its encoding accepts, and about how many tokens it has."""


def sendable(text: str) -> str:
    """Replace lone surrogates, which neither models nor request bodies accept."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: 4 ASCII characters each, 1.5 others, rounded up."""
    # In C in both cases: this is called for every prompt, and one accent is enough to make it not ASCII.
    ascii_letters = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return -(-ascii_letters // 4) + -(-(len(text) - ascii_letters) * 2 // 3)
