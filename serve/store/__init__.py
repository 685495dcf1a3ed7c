"""The store of `ragmeter serve`: scored requests in one file or in PostgreSQL, with queries.

One process writes, any number read; readers get plain values and no SQL.
"""

from __future__ import annotations

from ._cells import CellKey
from ._evidence import ChunkSentence, Evidence, evidence
from ._gap_list import GAPS_RANGE_S
from ._guidance import Advice, Cause, SameQuestion
from ._overview import Mean
from ._shadows import ShadowView
from ._slots import resource_of
from ._sqlite import back_up
from ._stages import DocumentView, StageView
from ._text_search import MOST_CHARACTERS
from .reader import LATEST_MS, LONGEST_RANGE_S, Reader, UnreadableStoreError
from .store import Store, StoreFullError, StoreOptions, StoreRefusedError

__all__ = [
    "GAPS_RANGE_S",
    "LATEST_MS",
    "LONGEST_RANGE_S",
    "MOST_CHARACTERS",
    "Advice",
    "Cause",
    "CellKey",
    "ChunkSentence",
    "DocumentView",
    "Evidence",
    "Mean",
    "Reader",
    "SameQuestion",
    "ShadowView",
    "StageView",
    "Store",
    "StoreFullError",
    "StoreOptions",
    "StoreRefusedError",
    "UnreadableStoreError",
    "back_up",
    "evidence",
    "resource_of",
]
