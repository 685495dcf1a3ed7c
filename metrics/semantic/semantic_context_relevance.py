"""Is at least one retrieved chunk close to the question in meaning? Uses the user's embedding model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from ragmeter.metrics._display.wording import quote_text
from ragmeter.metrics.protocol import Metric, scores_without_value
from ragmeter.metrics.sample import RagSample
from ragmeter.metrics.score import Score, ScoreItem, ScoreStatus

if TYPE_CHECKING:
    from ragmeter.metrics.embedder import Embedder
    from ragmeter.metrics.judge.protocol import Judge

_MOST_QUOTED = 100


@dataclass(frozen=True)
class SemanticContextRelevance(Metric):
    """Is at least one retrieved chunk near the question in meaning?

        value = the largest cosine of the question with a chunk

    Sees paraphrases and other languages, which shared words do not; sees no negation, and says nothing of
    whether the chunk answers. **No threshold fits**: what is a high cosine depends on the model and on
    the texts, so compare a value with those usual for the same application and model.

    Range: -1.0 to 1.0, higher is nearer.
    Needs: ``question``, ``contexts``, and an embedder.
    Cost: The embedder's, once for each text; many requests share a call. Off by default.
    Source: ours.
    Differs from the source: nothing.

    Args:
        embedder: A LangChain ``Embeddings``, a LlamaIndex embedding, a function from texts to vectors,
            or of ``ragmeter.metrics.embedder`` an ``OpenAIEmbedder`` or, for prefixes and a budget, an
            ``InProcessEmbedder`` of one of these. None: that of the meter. Its model's name stands in
            `definition`.

    Without a value:
        ``missing_input``: no question or contexts given.
        ``undefined``: the question is blank, or no chunk has text.
        ``skipped``: there is no embedder, or its budget is used up.
        ``timeout``: it did not answer in time.
        ``metric_error``: it failed, or returned something that is no vector (zero, or not finite).
    """

    embedder: Any = None
    definition: str = field(init=False)

    name = "semantic_context_relevance"
    score_names = ("semantic_context_relevance",)
    needs = ("question", "contexts")
    judged: ClassVar[bool] = False
    method = "embedding"
    target = "retrieval"
    range = (-1.0, 1.0)

    def __post_init__(self) -> None:
        definition = "1"
        if self.embedder is not None:
            from ragmeter.metrics.embedder import as_embedder  # noqa: PLC0415 -- only with one

            embedder = as_embedder(self.embedder)
            object.__setattr__(self, "embedder", embedder)
            definition = f"1;{embedder.definition}"
        object.__setattr__(self, "definition", definition)
        object.__setattr__(self, "lacks_embedder", self.embedder is None)

    def asking(self, embedder: Embedder | None) -> SemanticContextRelevance:
        """Return this metric with `embedder`, if it has none."""
        return self if self.embedder is not None else replace(self, embedder=embedder)

    async def measure(self, sample: RagSample, judge: Judge | None) -> Sequence[Score]:
        """Compare the question with every chunk."""
        del judge
        question = (sample.searched_for or "").strip()
        texts = [context.text.strip() for context in sample.contexts or ()]
        if self.embedder is None:
            return scores_without_value(self, "skipped", "no embedder is configured")
        if not question:
            return scores_without_value(self, "undefined", "the question is blank")
        if not any(texts):
            return scores_without_value(self, "undefined", "no chunk with text was retrieved")
        import asyncio  # noqa: PLC0415 -- loaded already, wherever this is awaited

        from ragmeter.metrics.embedder.vectors import cosine  # noqa: PLC0415 -- only with one
        from ragmeter.metrics.judge.protocol import JudgeError  # noqa: PLC0415 -- likewise

        chunks = [text for text in dict.fromkeys(texts) if text]
        try:
            [asked], found = await asyncio.gather(
                self.embedder.vectors([question], query=True), self.embedder.vectors(chunks)
            )
        except JudgeError as error:
            status: ScoreStatus = "metric_error" if error.status == "judge_error" else error.status
            return scores_without_value(self, status, str(error), error.error_type)
        near = {text: cosine(asked, made) for text, made in zip(chunks, found, strict=True)}
        items = [
            ScoreItem(f"chunk-{rank}", None, text, None, None if text else "blank", near.get(text))
            for rank, text in enumerate(texts, start=1)
        ]
        return (self._score(items),)

    def _score(self, items: Sequence[ScoreItem]) -> Score:
        compared = [item for item in items if item.value is not None]
        nearest = max(compared, key=lambda item: item.value or 0.0)
        said = f"{nearest.id} is nearest to the question: cosine {nearest.value:.2f}"
        others = [item.value or 0.0 for item in compared if item is not nearest]
        if others:
            low, high = f"{min(others):.2f}", f"{max(others):.2f}"
            said += f", the others {low}" if low == high else f", the others {low} to {high}"
        return self.make_score(
            self.name,
            nearest.value,
            summary=said,
            explanation=f"{said}: {quote_text(nearest.text, _MOST_QUOTED)}",
            items=items,
        )

    async def aclose(self) -> None:
        """Release the embedder's resources of the running event loop."""
        if self.embedder is not None:
            await self.embedder.aclose()
