"""Tokens that no endpoint has counted: budgets reserve them before a call is made."""


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: 4 ASCII characters each, 1.5 others, rounded up."""
    # In C either way: this is asked of every prompt, and one accent is enough to make it not ASCII.
    ascii_letters = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return -(-ascii_letters // 4) + -(-(len(text) - ascii_letters) * 2 // 3)
