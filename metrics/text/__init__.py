"""Text tools for English, Russian and Chinese: tokens, sentences, stems, overlaps."""

from .analysis import Analysis, analyse, forget_texts, limit_texts
from .sentences import sentences
from .stems import STOP_WORDS, stem
from .tokens import content_tokens, has_han, normalise, tokens

__all__ = [
    "STOP_WORDS",
    "Analysis",
    "analyse",
    "content_tokens",
    "forget_texts",
    "has_han",
    "limit_texts",
    "normalise",
    "sentences",
    "stem",
    "tokens",
]
