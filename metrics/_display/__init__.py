"""What people see of scores: summaries with their intervals, tables, drawings, HTML, and their words."""
