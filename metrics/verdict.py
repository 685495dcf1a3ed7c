"""The verdict on a request: one word, and the reasons for it."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

__all__ = ["Verdict", "VerdictWord"]

VerdictWord = Literal["good", "suspect", "bad"]
"""How a request looks: ``bad`` ones are for people to look at first, then ``suspect`` ones."""


class Verdict(BaseModel):
    """What a request's scores say together."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    word: VerdictWord
    """The worst that any rule says."""
    codes: tuple[str, ...] = ()
    """The rules that apply, strongest first; empty when ``good``. Low cardinality."""
    reasons: tuple[str, ...] = ()
    """One sentence for each code, without any text of the request."""
