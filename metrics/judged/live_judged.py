"""Judges a live request without a reference, in one call.

Do the chunks contain what the question needs, which of them do, is the answer faithful to them, and does it
refuse? The chunks are nearly all of a prompt: asked together these questions cost one call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from ragmeter.metrics.computed._ranking import ndcg, ndcg_bounds
from ragmeter.metrics.errors import ConfigurationError
from ragmeter.metrics.judge.protocol import Answer, Ask, Group, Item, JudgeError, Passage
from ragmeter.metrics.protocol import scores_without_value
from ragmeter.metrics.sample import RagSample
from ragmeter.metrics.score import Score, ScoreItem, ScoreStatus
from ragmeter.metrics.text.sentences import sentences

from ._judged_metric import (
    Chunks,
    Inquiry,
    JudgedMetric,
    definition_of,
    is_blank,
    number_units,
    passages_of,
    ranked_score,
    ratio_score,
)
from .faithfulness import CLAIM_NOTHING, support_evidence, support_score, unsupported_score

PROMPT = "live_judged"

# In this order, as plain true and false mean the first two.
_SUFFICIENCY = {"yes": 1.0, "no": 0.0, "partly": 0.5}
_STATED = {"yes": "all", "partly": "some", "no": "none"}
_WORDS = ("supported", "absent", "contradicted", "refusal", "no_claim")
_SUFFICIENT = "e1"

_RANKED = ("judged_precision", "judged_average_precision", "judged_ndcg", "judged_hit_rate")
_RETRIEVAL = ("context_sufficiency", *_RANKED)
_ANSWER = ("faithfulness", "judged_refusal")


Obstacle = tuple[ScoreStatus, str, str | None]
"""The status of an impossible score, the reason in words, and the missing field."""


def obstacles(sample: RagSample) -> dict[str, Obstacle]:
    """Return, by name, the scores that are impossible for `sample`, without a call to the judge."""
    found: dict[str, Obstacle] = {}
    if sample.question is None:
        found |= dict.fromkeys(_RETRIEVAL, ("missing_input", "not given: question", "question"))
    elif is_blank(sample.question):
        found |= dict.fromkeys(_RETRIEVAL, ("undefined", "the question is blank", None))
    if sample.status != "ok":
        ended = f"the request ended {sample.status!r}"
        found |= dict.fromkeys(_ANSWER, ("skipped", ended, None))
    elif sample.answer is None:
        found |= dict.fromkeys(_ANSWER, ("missing_input", "not given: answer", "answer"))
    elif not any(map(str.isalnum, sample.answer)):
        found |= dict.fromkeys(_ANSWER, ("undefined", "the answer is blank", None))
    return found


@dataclass(frozen=True)
class LiveQuestions:
    """The questions about one request, asked by `LiveJudged` alone or together with others."""

    question: str
    """The question; "": no questions about the chunks."""
    answer: str
    """The answer; "": no questions about the answer."""
    chunks: Chunks
    carried: Mapping[str, str]
    """Texts of earlier turns that an answer may rely on, by id; they are not judged."""
    relevance: bool = True
    """Whether each chunk is judged."""
    sufficiency: bool = True
    """Whether the chunks are judged together."""

    @classmethod
    def of(cls, sample: RagSample, wanted: Collection[str]) -> LiveQuestions:
        """Return the questions necessary for the `wanted` scores, as far as `sample` allows them."""
        open_names = set(wanted).difference(obstacles(sample))
        own = Chunks.of(sample.contexts or ())
        return cls(
            (sample.question or "").strip(),
            (sample.answer or "") if open_names.intersection(_ANSWER) else "",
            own,
            {one: text for one, text in Chunks.of(sample.support).texts.items() if one not in own.texts},
            relevance=bool(open_names.intersection(_RANKED)),
            sufficiency="context_sufficiency" in open_names,
        )

    @property
    def lines(self) -> dict[str, str]:
        """The sentences of the answer with content, by id."""
        said = [line for line in sentences(self.answer) if any(map(str.isalnum, line))]
        return number_units("a", said)

    def groups(self, letter: str = "c", shared_with: str | None = None) -> tuple[Group, ...]:
        """Return the three groups.

        Args:
            letter: First letter of the chunks' ids, if another group uses c.
            shared_with: As in `Group`.
        """
        texts = self.chunks.texts if self.question else {}
        relevant = tuple(
            Item(f"{letter}{chunk_id[1:]}", (self.question, text)) for chunk_id, text in texts.items()
        )
        sufficient = (Item(_SUFFICIENT, (self.question, *texts.values())),) if texts else ()
        sources = (*self.chunks.texts.values(), *self.carried.values())
        depends_on = (self.question, self.answer, *sources)
        said = tuple(Item(line_id, (*depends_on, line)) for line_id, line in self.lines.items())
        return (
            Group("relevant", relevant if self.relevance else (), compact=True, shared_with=shared_with),
            Group(
                "sufficiency",
                sufficient if self.sufficiency else (),
                "choice",
                choices=tuple(_SUFFICIENCY),
                shared_with=shared_with,
            ),
            Group("answer", said, "choice", choices=_WORDS, reasons=False, shared_with=shared_with),
        )

    @property
    def answer_passages(self) -> tuple[Passage, ...]:
        """The answer, line by line, if it is judged, with carried text."""
        lines = self.lines
        if not lines:
            return ()
        carried = (
            Passage(f"chunk {chunk_id}", text, only_for=frozenset(lines))
            for chunk_id, text in self.carried.items()
        )
        return (*carried, Passage("answer", lines=tuple(lines.items()), only_for=frozenset(lines)))

    @property
    def about_all_chunks(self) -> frozenset[str]:
        """The ids for which all chunks must be read."""
        return frozenset({_SUFFICIENT, *self.lines})


@dataclass(frozen=True)
class LiveJudged(JudgedMetric):
    """What can be judged of a request without a reference, in one call.

    - ``context_sufficiency``: do the chunks together hold what a full answer to the question needs?
      1.0 (``yes``), 0.5 (``partly``), 0.0 (``no``).
    - ``judged_precision``: the share of the chunks that hold something of it.
    - ``judged_average_precision``, ``judged_ndcg``: do those stand on top? With v_k = 1 for such a
      chunk at rank k: sum of v_k * hits_k / k, divided by the sum of v_k; and sum of
      v_k / log2(k + 1), divided by the same sum with all such chunks first. 0.0 where there is none.
    - ``judged_hit_rate``: 1.0 if there is any, else 0.0.
    - ``faithfulness``: as `Faithfulness`, by sentence, without reasons.
    - ``judged_refusal``: 1.0 (``refused``) if a sentence of the answer refuses and none claims
      anything, 0.5 (``partial``) if there are both, 0.0 (``answered``) if none refuses.

    The rank scores look only at what was retrieved: recall cannot be known without a reference, and a
    chunk that was not found lowers none of them but, as it is missing, ``context_sufficiency``.

    Range: 0.0 to 1.0 each; for ``judged_refusal`` no way is better.
    Needs: ``contexts``, ``question`` or ``answer``; each score the question, the answer or both.
    Cost: 1 judge call. A chunk that was judged for this question before is not asked about again. After
        an empty retrieval only the answer is asked about.
    Prompts: ``prompts/live_judged.md``.
    Source: ours; rank scores as in textbooks.
    Differs from the source: ideal and mean are taken over what was retrieved.

    Args:
        only: Names of the scores to measure; None: all. What no other needs is not asked.
        unknown_as: 0 counts unknown verdicts as false, and sufficiency as ``no``; None leaves the score
            without a value.

    Without a value:
        ``missing_input``: no contexts, or no question or answer where a score needs it.
        ``undefined``: the question or the answer is blank, the answer claims nothing
            (``faithfulness``), or nothing was retrieved (precision, average precision, NDCG).
        ``partial``: verdicts stayed unknown; see ``lower`` and ``upper``.
        ``skipped``: the request did not end ``ok`` (scores of the answer), or the judge's budget is
            used up.
        ``judge_error``, ``timeout``: the judge failed.
    """

    only: tuple[str, ...] | None = None
    unknown_as: Literal[0] | None = None
    definition: str = field(init=False)

    name = "live_judged"
    score_names = (*_RETRIEVAL, *_ANSWER)
    covers = ("faithfulness",)
    """Names of the metrics that it replaces."""
    needs = ("contexts", "question|answer")
    target = "retrieval"
    targets = MappingProxyType(dict.fromkeys(_ANSWER, "answer"))
    directions = MappingProxyType({"judged_refusal": "none"})

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen: tuple[str, ...] = type(self).score_names
        if self.only is not None:
            unknown = [name for name in self.only if name not in chosen]
            if unknown or not self.only:
                raise ConfigurationError(f"only is {self.only!r}; pass some of {', '.join(chosen)}")
            chosen = tuple(name for name in chosen if name in self.only)
        object.__setattr__(self, "score_names", chosen)
        if len(chosen) == 1:
            object.__setattr__(self, "name", chosen[0])
        object.__setattr__(self, "definition", definition_of("1", PROMPT, unit="sentence"))

    async def judge(self, sample: RagSample, inquiry: Inquiry) -> Sequence[Score]:
        """Ask all open questions in one call."""
        asked = LiveQuestions.of(sample, self.score_names)
        passages = tuple(
            Passage(f"chunk {chunk_id}", text, only_for=asked.about_all_chunks | {chunk_id})
            for chunk_id, text in asked.chunks.texts.items()
        )
        passages += passages_of(question=sample.question) + asked.answer_passages
        found = {
            name: self.without_value(status, said, name).model_copy(update={"missing": missing})
            for name, (status, said, missing) in obstacles(sample).items()
        }
        wanted = set(self.score_names) - found.keys()
        answers: Mapping[str, Answer] = {}
        try:
            answers = (await inquiry.ask(Ask(self.name, PROMPT, passages, asked.groups()))).answers
        except JudgeError as error:
            # Scores that do not need the judge are still known: those of an empty retrieval.
            struck = wanted if asked.chunks.texts else wanted.intersection(_ANSWER)
            failed = scores_without_value(self, error.status, str(error), error.error_type)
            found |= {score.name: score for score in failed if score.name in struck}
            wanted -= struck
        found |= {score.name: score for score in self._scores(asked, wanted, answers)}
        return tuple(found[name] for name in self.score_names)

    def _scores(self, asked: LiveQuestions, wanted: set[str], answers: Mapping[str, Answer]) -> Iterator[Score]:
        if "context_sufficiency" in wanted:
            yield self._sufficiency(asked.chunks, answers)
        if not wanted.isdisjoint(_RANKED):
            yield from self._ranking_scores(asked.chunks, answers)
        if not wanted.isdisjoint(_ANSWER):
            said = support_evidence("sentence", asked.lines, answers)
            yield self._faithfulness(said, is_empty=not (asked.chunks.texts or asked.carried))
            yield self._refusal(said)

    def _sufficiency(self, chunks: Chunks, answers: Mapping[str, Answer]) -> Score:
        name = "context_sufficiency"
        if not chunks.texts:
            said = "nothing was retrieved that could answer the question"
            return self.score(name, 0.0, label="no", said=said)
        answer = answers[_SUFFICIENT]
        word = answer.value if isinstance(answer.value, str) else None
        if word is None:
            value = 0.0 if self.unknown_as == 0 else None
            said = "it is unknown whether the chunks hold what a full answer needs"
            return self.score(name, value, "partial", bounds=(0.0, 1.0), said=said)
        said = f"the chunks state {_STATED[word]} of what a full answer needs"
        return self.score(name, _SUFFICIENCY[word], label=word, said=said, why=answer.reason)

    def _ranking_scores(self, chunks: Chunks, answers: Mapping[str, Answer]) -> Iterator[Score]:
        items = chunks.evidence(answers)
        verdicts = [item.verdict for item in items]
        nothing = "no chunk was retrieved"
        said = "chunks hold something that answers the question"
        yield ratio_score(self, _RANKED[0], verdicts, items, said=said, nothing=nothing)
        yield ranked_score(self, _RANKED[1], items).model_copy(update={"items": ()})
        hits = f"{sum(verdict is True for verdict in verdicts)} of {len(items)} {said}"
        unknown = verdicts.count(None)
        bounds = ndcg_bounds(verdicts, shared=[item.text for item in items])
        if bounds is None:
            yield self.without_value("undefined", nothing, _RANKED[2])
            yield self.score(_RANKED[3], 0.0, said=nothing)
            return
        least = ndcg([verdict is True for verdict in verdicts]) or 0.0
        yield self.score_of_verdicts(_RANKED[2], bounds, unknown, least=least, said=hits, named=items)
        any_hit = float(True in verdicts)
        span = (any_hit, float(any_hit or None in verdicts))
        yield self.score_of_verdicts(_RANKED[3], span, unknown, least=any_hit, said=hits, named=items)

    def _faithfulness(self, said: Sequence[ScoreItem], *, is_empty: bool) -> Score:
        if not is_empty:
            return support_score(self, said)
        claims = [
            item
            if item.evidence is None or item.evidence in CLAIM_NOTHING
            else item._replace(verdict=False, evidence="absent")
            for item in said
        ]
        return unsupported_score(self, claims)

    def _refusal(self, said: Sequence[ScoreItem]) -> Score:
        words = [item.evidence for item in said]
        refusals, unknown = words.count("refusal"), words.count(None)
        claims = len(words) - refusals - unknown - words.count("no_claim")
        items = [
            item._replace(verdict=None if item.evidence is None else item.evidence == "refusal")
            for item in said
        ]
        counts = f"{refusals} of {len(words)} sentences of the answer refuse, {claims} claim something"
        lower = 0.5 if refusals else 0.0
        upper = 0.5 if claims else 1.0
        least = upper if refusals else 0.0
        return self.score_of_verdicts(
            "judged_refusal",
            (lower, upper) if unknown else (least, least),
            unknown,
            least=least,
            said=counts,
            items=items,
            label=None if unknown else {0.0: "answered", 0.5: "partial", 1.0: "refused"}.__getitem__,
        )
