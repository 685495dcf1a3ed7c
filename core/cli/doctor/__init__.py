"""``ragmeter doctor``: what is installed, configured and reachable, and does a request get scored?

`examine` runs every check in the environment it is called in and yields `Finding`s, in the
order in which things depend on each other; `report` prints them.  It changes nothing, and
sends one test request per framework.
"""

from .examination import DoctorOptions, examine
from .findings import Finding, worst

__all__ = ["DoctorOptions", "Finding", "examine", "worst"]
