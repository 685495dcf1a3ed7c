"""Display of scores: summaries with their intervals, tables, drawings, HTML, and wording."""
