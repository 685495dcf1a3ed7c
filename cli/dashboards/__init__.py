"""What ``ragmeter dashboards`` writes: Grafana dashboard, Prometheus rules, a stack to try them in.

`dashboard_files` returns all of it as texts by path.  Everything that contains a metric or
attribute name is generated from ``exporters/semconv.py``, so that a rename there cannot
strand a panel or an alert; what contains none is kept as plain files in ``stack/``.
"""

from .files import dashboard_files
from .rules import RuleSettings, rules

__all__ = ["RuleSettings", "dashboard_files", "rules"]
