"""The judge: a language model that gives verdicts, with cache, batching and budget.

Public names are imported on first use: a program without a judge loads none of them.
"""

from typing import TYPE_CHECKING

from ragmeter.metrics._process.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .budget import JudgeBudget
    from .cache import JudgeCache
    from .counting import CountingJudge
    from .openai import OpenAIJudge
    from .protocol import (
        Answer,
        Ask,
        Group,
        Item,
        Judge,
        JudgeCall,
        JudgeError,
        JudgeStats,
        Passage,
        Reply,
        Usage,
    )
    from .shared_budget import SharedBudget
    from .shared_cache import SharedCache

__all__ = [
    "Answer",
    "Ask",
    "CountingJudge",
    "Group",
    "Item",
    "Judge",
    "JudgeBudget",
    "JudgeCache",
    "JudgeCall",
    "JudgeError",
    "JudgeStats",
    "OpenAIJudge",
    "Passage",
    "Reply",
    "SharedBudget",
    "SharedCache",
    "Usage",
]

_HOMES = {
    "CountingJudge": "counting",
    "JudgeBudget": "budget",
    "JudgeCache": "cache",
    "OpenAIJudge": "openai",
    "SharedBudget": "shared_budget",
    "SharedCache": "shared_cache",
}

__getattr__, __dir__ = lazy_exports(__name__, __all__, _HOMES, "protocol")
