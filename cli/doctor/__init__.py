"""``ragmeter doctor``: the installed packages, configuration and connections, and a scored test request.

`examine` runs every check in the current environment and yields `Finding`s, in the order of their
dependencies; `_report` prints them. It changes nothing, and sends one test request per framework.
"""

from ._findings import Finding, worst
from .run import examine

__all__ = ["Finding", "examine", "worst"]
