"""The sums behind means of quality: what each adds up. `semconv` makes an instrument of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PAIR_SUMS: Final[Mapping[str, str]] = {
    "r": "Values of conversations that had one before.",
    "cn": "Products of the weights of two values of one conversation, each pair both ways round.",
    "cx": "The same, times the first one's value.",
    "cxx": "The same, times both values.",
}
"""How alike the values of one conversation are; all 0 where each request stands alone."""
FREE_SUMS: Final[Mapping[str, str]] = {
    "n": "Requests that had what a score needs, judged or not.",
    "kd": "Requests measured with a value, each counted once.",
    "x": "Sum of a free score, or of the free score that a judged one is corrected by.",
    "xx": "Sum of its squares.",
    "wb": "Weighted number of measured requests for which a value exists in principle.",
    "low": "Weighted number of requests on the bad side of the objective; absent without one.",
    **PAIR_SUMS,
}
"""The sums of a score that every request gets, with what they add up."""
JUDGED_SUMS: Final[Mapping[str, str]] = {
    "n": FREE_SUMS["n"],
    "x": FREE_SUMS["x"],
    "xx": FREE_SUMS["xx"],
    "k": "Judged requests, each counted once.",
    "kd": FREE_SUMS["kd"],
    "w": "Sum of the weights of judged requests, the inverses of their probabilities.",
    "wx": "Weighted sum of the free score.",
    "wd": "Weighted number of judged requests with a value.",
    "wy": "Weighted sum of the judged score.",
    "wl": "Weighted sum of the lowest possible judged score.",
    "wu": "Weighted sum of the highest possible judged score.",
    "wb": FREE_SUMS["wb"],
    "q": "Sum of the squared weights.",
    "qx": "Sum of the free score, by squared weight.",
    "qxx": "Sum of its squares, by squared weight.",
    "qd": "Squared weights of judged requests with a value.",
    "qxd": "Their free score, by squared weight.",
    "qy": "Sum of the judged score, by squared weight.",
    "qyy": "Sum of its squares, by squared weight.",
    "qxy": "Sum of its products with the free score, by squared weight.",
    "c": "Requests that chance alone chose to be judged, with a value.",
    "y": "Sum of their judged score, without weights.",
    "yy": "Sum of its squares, without weights.",
    "low": FREE_SUMS["low"],
    **PAIR_SUMS,
}
"""The sums of a score that only requests have that were chosen to be judged, likewise."""
