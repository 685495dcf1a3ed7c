"""The files that ``ragmeter dashboards`` writes: Grafana dashboard, Prometheus rules, a stack to try them in.

All of it is data that people edit: ``dashboard.json`` as Grafana exports it, ``formulas/`` for the rules,
with placeholders for the few numbers of `RuleSettings`, and the files of ``stack/``. Every name in them is
defined in ``exporters/semconv.py``, which a test checks.
"""

from .rules import RuleSettings, rules_text
from .run import dashboard_files

__all__ = ["RuleSettings", "dashboard_files", "rules_text"]
