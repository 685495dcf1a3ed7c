"""What ``ragmeter dashboards`` writes: Grafana dashboard, Prometheus rules, a stack to try them in.

All of it is data that people edit: ``dashboard.json`` as Grafana exports it, ``formulas/`` for the rules,
with the few numbers of `RuleSettings` left open, and the files of ``stack/``.  Every name in them
stands in ``exporters/semconv.py``; a test holds them to it.
"""

from .rules import RuleSettings, rules_text
from .run import dashboard_files

__all__ = ["RuleSettings", "dashboard_files", "rules_text"]
