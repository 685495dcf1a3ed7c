"""Scoring in a worker process: its two ends, the channel between them, and who restarts it.

`RagMeter(scoring="process")` makes a `ScoringProcess` and hands it to the pipeline, which asks it as it
would ask its metrics and the judge's loop.  `supervision`, `jobs`, `connection` and `interpreter` run in the
meter's process, `serving` in the worker, `channel`, `codec`, `parcel` and `budgets` at both ends.
"""

from .supervision import ScoringProcess

__all__ = ["ScoringProcess"]
