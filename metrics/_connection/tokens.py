"""Token estimates, for which budgets reserve room before a call."""


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: 4 ASCII characters each, 1.5 others, rounded up."""
    # In C in both cases: this is called for every prompt, and one accent is enough to make it not ASCII.
    ascii_letters = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return -(-ascii_letters // 4) + -(-(len(text) - ascii_letters) * 2 // 3)
