"""``ragmeter doctor``: what is installed, configured and reachable, and whether a request gets scored.

`examine` runs every check in the environment it is called in and yields `Finding`s, in the
order in which things depend on each other; `_report` prints them.  It changes nothing, and
sends one test request per framework.
"""

from ._findings import Finding, worst
from .run import DoctorOptions, examine

__all__ = ["DoctorOptions", "Finding", "examine", "worst"]
