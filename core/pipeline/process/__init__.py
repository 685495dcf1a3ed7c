"""Scoring in a worker process: both ends, the channel between them, and its supervision.

`RagMeter(scoring="process")` makes a `ScoringProcess`, which computes the free metrics, and whose `judges`
run the judged ones.  `supervision`, `judging` and `worker` run in the meter's process, `serving` in the worker,
`channel`, `codec` and `budgets` at both ends.
"""

from .supervision import ScoringProcess

__all__ = ["ScoringProcess"]
