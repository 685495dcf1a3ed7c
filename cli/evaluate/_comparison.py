"""``--compare``: another retriever's results for the same questions, compared with those of the data set.

The other file's rows wait by question in a private database, so files may have any length; rows of one
question are paired in order.  Called by `run`, shown by the reports.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter

from ragmeter.metrics import ConfigurationError, RetrievedContext
from ragmeter.metrics._files.columns import Columns
from ragmeter.metrics._files.samples import Row, key_of_question, read_samples
from ragmeter.metrics._files.scratch_database import scratch_database
from ragmeter.metrics.judge.protocol import Judge
from ragmeter.quality.retriever_comparison import Comparison, RetrieverComparison

_CONTEXTS = TypeAdapter(tuple[RetrievedContext, ...])


class OtherRetriever:
    """Another retriever's results for the questions of a data set; without a judge, shared words decide."""

    def __init__(self, path: Path, columns: Columns, judge: Judge | None) -> None:
        self._rows = scratch_database(self)
        self._rows.execute("CREATE TABLE other (question TEXT, place INTEGER PRIMARY KEY, contexts BLOB)")
        self._comparison = RetrieverComparison(path.name, judge)
        for place, row in enumerate(read_samples(path, columns)):
            if not isinstance(row, Row):
                self._comparison.fail("unreadable")
            elif row.sample.question and row.sample.contexts is not None:
                self._rows.execute(
                    "INSERT INTO other VALUES (?, ?, ?)",
                    (key_of_question(row.sample.question), place, _CONTEXTS.dump_json(row.sample.contexts)),
                )
        self._rows.execute("CREATE INDEX by_question ON other (question, place)")
        if not self._count_rows():
            raise ConfigurationError(f"--compare {str(path)!r}: no row has a question and contexts")

    async def add(self, row: Row) -> None:
        """Compare a row of the data set with the other retriever's row of the same question."""
        sample = row.sample
        if not sample.question or sample.contexts is None:
            self._comparison.fail("no_contexts")
            return
        found = self._rows.execute(
            "SELECT place, contexts FROM other WHERE question = ? ORDER BY place LIMIT 1",
            (key_of_question(sample.question),),
        ).fetchone()
        if found is None:
            self._comparison.fail("no_partner")
            return
        self._rows.execute("DELETE FROM other WHERE place = ?", found[:1])
        await self._comparison.add(sample, _CONTEXTS.validate_json(found[1]))

    def result(self) -> Comparison:
        """Return the comparison, once all rows are added."""
        if left := self._count_rows():
            self._comparison.fail("only_in_other", left)
            self._rows.execute("DELETE FROM other")
        return self._comparison.result()

    def _count_rows(self) -> int:
        return int(self._rows.execute("SELECT count(*) FROM other").fetchone()[0])
