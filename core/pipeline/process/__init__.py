"""Scoring in a worker process: its two ends, the channel between them, and what restarts it.

`RagMeter(scoring="process")` makes a `ScoringProcess`, which computes what the pipeline's scoring station
asks for, and whose `judges` measure for the judge's loop.  `supervision`, `judging`, `worker` and
`interpreter` run in the meter's process, `serving` in the worker, `channel`, `codec`, `payload` and
`budgets` at both ends.
"""

from .supervision import ScoringProcess

__all__ = ["ScoringProcess"]
