"""What many scores of one name amount to: mean, interval, percentiles, and how many had no value.

Used by the command line, for tables, JSON and HTML, and by what decides whether a mean is good enough. It
stands in `ragmeter.metrics._display.summary`, because `ragmeter.metrics.evaluate` says the same.
"""

from ragmeter.metrics._display.mean_interval import mean_interval
from ragmeter.metrics._display.summary import (
    ScoreSummary,
    Standing,
    Summarizer,
    percentile,
    standing,
    summarize,
    valued_first,
)

__all__ = [
    "ScoreSummary",
    "Standing",
    "Summarizer",
    "mean_interval",
    "percentile",
    "standing",
    "summarize",
    "valued_first",
]
