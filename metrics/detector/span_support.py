"""Share of the answer that the chunks support, according to the user's detector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from ragmeter.metrics._display.wording import quote_text
from ragmeter.metrics.errors import ConfigurationError
from ragmeter.metrics.judge.protocol import JudgeError
from ragmeter.metrics.protocol import Metric, scores_without_value
from ragmeter.metrics.sample import RagSample
from ragmeter.metrics.score import Score, ScoreItem, ScoreStatus

from .detector import DetectionRequest
from .in_process import as_detector

if TYPE_CHECKING:
    from ragmeter.metrics.judge.protocol import Judge

_MOST_QUOTED = 100


@dataclass(frozen=True)
class SpanSupport(Metric):
    """Which share of the answer has the support of the chunks, as a trained detector sees it?

        value = 1 - characters in unsupported spans / characters of the answer, blanks not counted

    A detector marks a wrong clause in an answer that is right as a whole, where shared words see nothing.
    What it misses and what it marks in vain depends on the model.

    Range: 0.0 to 1.0, higher is better.
    Needs: ``contexts``, ``answer``; reads ``question`` where it is known.
    Cost: The detector's, off the request's path; answers that come together share a call. Off by default.
    Source: The span task of RAGTruth (Niu and others, 2024) and LettuceDetect (Kovács, Recski, 2025).
    Differs from the source: those count spans right and wrong against people's; this says how much of one
    answer is marked.

    Args:
        detector: An address, a function of question, contexts and answer that returns spans, or of
            ``ragmeter.metrics.detector`` an ``HttpSpanDetector``, ``InProcessSpanDetector`` or
            ``OnnxSpanDetector``. Its name stands in `definition`.
        at_least: Probability from which a span counts, above 0.0 to 1.0.

    Without a value:
        ``missing_input``: no contexts or answer given.
        ``undefined``: the answer is blank.
        ``skipped``: the detector's budget is used up.
        ``timeout``: it did not answer in time.
        ``metric_error``: it failed, or returned something that is no list of spans in the answer.
    """

    detector: Any
    at_least: float = 0.5
    definition: str = field(init=False)

    name = "span_support"
    score_names = ("span_support",)
    needs = ("contexts", "answer")
    judged: ClassVar[bool] = False
    method = "detector"
    target = "answer"

    def __post_init__(self) -> None:
        if not 0.0 < self.at_least <= 1.0:
            raise ConfigurationError(f"at_least is {self.at_least!r}; pass a number above 0.0, at most 1.0")
        detector = as_detector(self.detector)
        object.__setattr__(self, "detector", detector)
        object.__setattr__(self, "definition", f"1;at_least={self.at_least:g};{detector.definition}")

    async def measure(self, sample: RagSample, judge: Judge | None) -> Sequence[Score]:
        """Find the unsupported parts of the answer with the detector."""
        del judge
        answer = sample.answer or ""
        if not answer.strip():
            return scores_without_value(self, "undefined", "the answer is blank")
        texts = tuple(context.text for context in sample.support)
        try:
            spans = await self.detector.spans(DetectionRequest(sample.question or "", texts, answer))
        except JudgeError as error:
            status: ScoreStatus = "metric_error" if error.status == "judge_error" else error.status
            return scores_without_value(self, status, str(error), error.error_type)
        marked = [span for span in spans if span.probability >= self.at_least]
        items = [
            ScoreItem(
                f"span-{number}", False, answer[span.start : span.end], None,
                f"characters {span.start} to {span.end}", span.probability,
            )
            for number, span in enumerate(marked, start=1)
        ]  # fmt: skip
        covered = sum(_ink_length(answer[span.start : span.end]) for span in marked)
        share = covered / _ink_length(answer)
        counted = f"{len(marked)} unsupported spans, {share:.0%} of the answer"
        said = counted if marked else "no unsupported span"
        worst = max(items, key=lambda item: item.value or 0.0, default=None)
        explanation = said if worst is None else f"{said}: {quote_text(worst.text, _MOST_QUOTED)}"
        return (self.make_score(self.name, 1.0 - share, summary=said, explanation=explanation, items=items),)

    async def aclose(self) -> None:
        """Release the detector's resources of the running event loop."""
        await self.detector.aclose()


def _ink_length(text: str) -> int:
    """Return the number of characters that are not blanks."""
    return sum(not character.isspace() for character in text)
