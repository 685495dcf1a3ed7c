"""How close is the wording of the answer to the reference answer?

Two backends: ROUGE-L and token F1 on ragmeter's Unicode tokens, and the unchanged scores of Google's package
rouge-score.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, get_args

from ragmeter.metrics._display.wording import percent
from ragmeter.metrics.errors import ConfigurationError, MissingDependencyError, TooLongError
from ragmeter.metrics.protocol import ComputedMetric
from ragmeter.metrics.sample import RagSample
from ragmeter.metrics.score import Score, ScoreItem
from ragmeter.metrics.text.analysis import analyse
from ragmeter.metrics.text.overlap import Overlap, rouge_l, token_overlap

OverlapBackend = Literal["unicode", "rouge-score"]
"""``unicode``: ragmeter's tokens, for every script. ``rouge-score``: the package of that name."""

_MOST_CELLS = 4_000_000
"""Most tokens of the answer times tokens of the reference for rouge-score: its table has that many numbers
(some 100 MB) and takes about a second."""

_ROUGE_SCORE_NAMES = {"rouge1": "rouge_1", "rouge2": "rouge_2", "rougeL": "rouge_l"}
"""The names of scores in the package and in ragmeter."""

_Comparison = Callable[[str, str], Mapping[str, Overlap]]
"""Answer and reference → overlap by score name; empty if the reference has no token."""


@dataclass(frozen=True)
class AnswerOverlap(ComputedMetric):
    """How close is the wording of the answer to the reference answer?

        rouge_l  = F1 of LCS / answer tokens and LCS / reference tokens
        token_f1 = F1 of the shared tokens, repeats counted, without the articles a, an, the
        rouge_1, rouge_2 = F1 of the shared tokens, or pairs of neighbours, repeats counted

    LCS is the longest common subsequence of the token lists.  With several references
    (``reference.alternative_answers``) each score takes the one with the best F1, and the
    evidence shows that one's precision, recall and F1 together.

    ``backend="unicode"`` gives `rouge_l` and `token_f1`.  ``backend="rouge-score"`` gives
    `rouge_1`, `rouge_2` and `rouge_l` exactly as Google's package does, with its tokenizer
    (lower case, ``[a-z0-9]`` only: no Russian, no Chinese); the extra ``rouge`` installs it.

    Range: 0.0 to 1.0 each, dimensionless.
    Needs: ``answer``, ``reference.answer``.
    Cost: no judge; ``rouge-score`` 0.5 ms for 50 words, 40 ms for 500.
    Source: Lin 2004 (ROUGE); Rajpurkar et al. 2016 (SQuAD's F1); rouge-score 0.1.2.
    Differs from the source: ``unicode`` has Unicode tokens, so Russian and Chinese count, and does
        not stem.  ``rouge-score`` does not differ where a reference has a token.

    Args:
        backend: ``unicode`` or ``rouge-score``.
        use_stemmer: Let rouge-score cut off English suffixes (Porter), as its argument does.

    Without a value:
        ``missing_input``: no answer or no reference answer; ``skipped``: the request failed, or
        the texts are too long for rouge-score (4 million pairs of tokens).
        ``undefined``: no reference answer has a token.

    Raises:
        ConfigurationError: There is no such backend, or ``unicode`` is asked to stem.
        MissingDependencyError: rouge-score is not installed.
    """

    backend: OverlapBackend = "unicode"
    use_stemmer: bool = False
    score_names: tuple[str, ...] = field(init=False, default=("rouge_l", "token_f1"))
    definition: str = field(init=False, default="3")

    name = "answer_overlap"
    needs = ("answer", "reference.answer")
    method = "rouge"
    target = "answer"

    def __post_init__(self) -> None:
        if self.backend not in get_args(OverlapBackend):
            raise ConfigurationError(f"backend is {self.backend!r}; it is 'unicode' or 'rouge-score'")
        if self.backend == "rouge-score":
            _rouge_score(self.use_stemmer)  # if missing, raises now, not at the first request
            object.__setattr__(self, "score_names", tuple(_ROUGE_SCORE_NAMES.values()))
            stemmer = "porter" if self.use_stemmer else "none"
            object.__setattr__(self, "definition", f"2;rouge-score/stemmer={stemmer}")
        elif self.use_stemmer:
            raise ConfigurationError("use_stemmer=True needs backend='rouge-score'")

    def compute(self, sample: RagSample) -> Sequence[Score]:
        """Compare the answer with every reference answer and keep the best."""
        reference = sample.reference
        texts = () if reference is None else (reference.answer or "", *reference.alternative_answers)
        compare = _unicode if self.backend == "unicode" else _rouge_score(self.use_stemmer)
        overlaps = [compare(sample.answer or "", text) for text in texts]
        return [self._best(name, overlaps) for name in self.score_names]

    def _best(self, name: str, overlaps: Sequence[Mapping[str, Overlap]]) -> Score:
        """Return the score `name` of the reference with the best F1; the first of equal ones."""
        best: Overlap | None = None
        place = 0
        for position, overlap in enumerate(overlaps, start=1):
            found = overlap.get(name)
            if found is not None and (best is None or found.f1 > best.f1):
                best, place = found, position
        if best is None:
            why = "no reference answer has a token"
            return self.make_score(name, None, explanation=why, summary=why)
        items = [
            ScoreItem(f"reference-{place}/{part}", None, value=number)
            for part, number in zip(best._fields, best, strict=True)
        ]
        said = (
            f"{percent(best.precision)} of the answer is in reference {place}, "
            f"{percent(best.recall)} of that in the answer"
        )
        return self.make_score(name, best.f1, items=items, explanation=said, summary=said)


def _unicode(answer: str, reference: str) -> Mapping[str, Overlap]:
    found: dict[str, Overlap] = {}
    if wanted := analyse(reference).tokens:
        found["rouge_l"] = rouge_l(wanted, analyse(answer).tokens)
    if (shared := token_overlap(answer, reference)) is not None:
        found["token_f1"] = shared
    return found


@cache
def _rouge_score(use_stemmer: bool) -> _Comparison:
    """Return rouge-score's comparison; loaded once, because it imports nltk and numpy."""
    try:
        from rouge_score.rouge_scorer import RougeScorer  # noqa: PLC0415 -- an extra
        from rouge_score.tokenizers import DefaultTokenizer  # noqa: PLC0415 -- an extra
    except ImportError as error:
        purpose = "AnswerOverlap(backend='rouge-score')"
        raise MissingDependencyError(error.name or "rouge-score", "rouge", purpose) from None
    tokenizer = DefaultTokenizer(use_stemmer)
    scorer = RougeScorer(list(_ROUGE_SCORE_NAMES), tokenizer=tokenizer)

    def compare(answer: str, reference: str) -> Mapping[str, Overlap]:
        wanted = len(tokenizer.tokenize(reference))
        if not wanted:
            return {}
        said = len(tokenizer.tokenize(answer))
        if said * wanted > _MOST_CELLS:
            raise TooLongError(f"rouge-score would compare {said} with {wanted} tokens")
        scored = scorer.score(reference, answer)
        return {
            ours: Overlap(*map(float, (one.precision, one.recall, one.fmeasure)))
            for theirs, ours in _ROUGE_SCORE_NAMES.items()
            for one in (scored[theirs],)
        }

    return compare
