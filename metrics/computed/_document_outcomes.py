"""Traces each right document on its way from the store to the model.

Called by `retrieval_stages`; scores nothing.  A document is followed through the recorded stages
(`RagSample.stages`): from the last list that has it to the stage that received that list.  Anything not
recorded is ``unknown``.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, Literal, NamedTuple

from ragmeter.metrics.sample import RagSample, RetrievalStage, RetrievedContext
from ragmeter.metrics.text.analysis import analyse

from ._matching import Matcher

FateCode = Literal["in_prompt", "returned", "ranked_below_k", "dropped_by", "cut_by", "never_found", "unknown"]
"""``in_prompt``: it reached the model. ``returned``: no model was called, and the request returned it.
``ranked_below_k``: a stage kept the first k of a list, and its rank was lower. ``dropped_by``: a stage
received it and did not pass it on. ``cut_by``: the rest of its containing document was passed on, but not
this part. ``never_found``: no retriever found it. ``unknown``: none of these is known."""

PROMPT: Final = "prompt"
OUTPUT: Final = "output"
UNKNOWN: Final = "unknown"

MIN_EXTRACT: Final = 16
"""Least number of characters of a text to be searched in another one: shorter ones occur anywhere."""

_CUTS: Final = frozenset({"function", "tool", "synthesizer", "unknown"})
"""Kinds of stages that merely truncate a list to its first k; rerankers and filters are supposed to select."""

_MODEL_ASKED: Final = frozenset({"ok", "refused", "partial", "no_answer"})
_MAX_NAME: Final = 64


class Fate(NamedTuple):
    """The outcome of one right document."""

    code: FateCode
    """Its code."""
    stage: str | None = None
    """The stage that dropped it, cut it off, moved it below the first k or, if none did, cut the list above
    it; ``unknown``: no recorded stage."""
    recorded: bool = True
    """False: it depends on an inferred list."""
    rank: int | None = None
    """Its rank in the last list that had it."""
    list_name: str | None = None
    """The stage that returned that list."""
    kept: int | None = None
    """Number of documents kept of it."""

    @property
    def text(self) -> str:
        """The code, with the stage if known."""
        return self.code if self.stage is None else f"{self.code} {self.stage}"

    @property
    def is_lost(self) -> bool | None:
        """Whether it was lost; None: unknown."""
        if self.code == "unknown":
            return None
        return self.code not in ("in_prompt", "returned")


class Journey:
    """The lists of documents of one request, and the stages that received them.

    Attributes:
        names: Names of the stages, each once.
        stages: The stages as recorded.
        end_name: ``prompt``, or ``output`` if no model was called.
        end: The documents that reached the model; None: unknown.
        end_is_recorded: Whether a prompt showed them, or the application reported them.
    """

    def __init__(self, sample: RagSample) -> None:
        self.stages: Sequence[RetrievalStage] = sample.stages or ()
        self.names = _distinct([stage.name for stage in self.stages])
        self.end: Sequence[RetrievedContext] | None = sample.contexts
        self.end_name = PROMPT
        self.end_is_recorded = sample.contexts_by != "runs"
        if sample.status == "retrieval_only" and not self.end_is_recorded:
            self.end_name, self.end_is_recorded = OUTPUT, True
        elif not self.end_is_recorded and sample.status not in _MODEL_ASKED:
            self.end = None  # it ended before a prompt was recorded
        self._next: dict[int, int] = {}
        for place, stage in enumerate(self.stages):
            for source in stage.inputs:
                self._next[source] = max(place, self._next.get(source, place))

    def taker(self, place: int) -> int:
        """Return the index of the last stage that received a stage's documents; beyond the last: the prompt."""
        return self._next.get(place, len(self.stages))

    @property
    def unseen_way(self) -> bool:
        """Whether documents of the last stages were lost without a recorded stage that received them."""
        last = [
            context
            for place, stage in enumerate(self.stages)
            if self.taker(place) == len(self.stages)
            for context in stage.contexts or ()
        ]
        return self.end is not None and bool(not_among(last, self.end))

    @property
    def sources(self) -> list[RetrievalStage]:
        """The stages that found documents without receiving any."""
        return [stage for stage in self.stages if not stage.inputs]

    def lists(self) -> Iterator[Sequence[RetrievedContext]]:
        """Yield every known list of documents, the final one first."""
        yield self.end or ()
        for stage in self.stages:
            yield stage.contexts or ()

    def contexts(self) -> Iterator[RetrievedContext]:
        """Yield every document of every list."""
        return chain.from_iterable(self.lists())

    def fate(self, held: set[int]) -> Fate:
        """Follow a document.

        Args:
            held: The identities of the objects for the document, or for a part of it.
        """
        if self.end is not None:
            rank = _rank(self.end, held)
            if rank is not None:
                code: FateCode = "in_prompt" if self.end_name == PROMPT else "returned"
                return Fate(code, None, self.end_is_recorded, rank, self.end_name)
        holders = [
            place for place, stage in enumerate(self.stages) if _rank(stage.contexts or (), held) is not None
        ]
        if not holders:
            known = all(stage.contexts is not None for stage in self.sources)
            return Fate("never_found" if self.stages and known else "unknown")
        last = max(holders, key=lambda place: (self.taker(place), place))
        return self._lost_after(last, held)

    def _lost_after(self, last: int, held: set[int]) -> Fate:
        stage = self.stages[last]
        rank, at = _rank(stage.contexts or (), held), self.names[last]
        taker = self.taker(last)
        kept: Sequence[RetrievedContext] | None
        if taker < len(self.stages):
            by = self.stages[taker]
            given, kept, name, recorded = by.inputs, by.contexts, self.names[taker], by.recorded
            is_cut = by.kind in _CUTS
        else:
            given = tuple(place for place in range(len(self.stages)) if self.taker(place) == taker)
            kept, name, recorded, is_cut = self.end, UNKNOWN, self.end_is_recorded, True
        before = [c for place in given for c in self.stages[place].contexts or ()]
        if kept is None or rewritten_documents(kept, before):
            return Fate("unknown", None, False, rank, at)
        cut = is_cut and len(given) == 1 and _is_beginning(kept, stage.contexts or ())
        if cut:
            name = self._lowered_by(last, held, len(kept)) or name
        return Fate(
            "ranked_below_k" if cut else "dropped_by", name, recorded and stage.recorded, rank, at, len(kept)
        )

    def _lowered_by(self, last: int, held: set[int], kept: int) -> str | None:
        """Return the stage that moved a document below the first `kept`, or None."""
        place = last
        while len(self.stages[place].inputs) == 1:
            (before,) = self.stages[place].inputs
            rank = _rank(self.stages[before].contexts or (), held)
            if rank is None:
                break
            if rank <= kept:
                return self.names[place]
            place = before
        return None


def fates_by_id(journey: Journey, golden: Sequence[str]) -> list[Fate]:
    """Return the fate of each document that has one of the distinct ids `golden`.

    If a later stage changes or removes ids (chunks merged into their parent, extracts), a document counts as
    present as long as its text is.
    """
    contexts = list(journey.contexts())
    texts: dict[str, set[str]] = {}
    for context in contexts:
        if context.id is not None:
            texts.setdefault(context.id, set()).add(context.text)
    named = {text for found in texts.values() for text in found}
    nameless = any(
        context.id is None and context.text not in named
        for stage in journey.sources
        for context in stage.contexts or ()
    )
    fates: list[Fate] = []
    for identifier in golden:
        own = texts.get(identifier)
        if own is None:
            # It may be one of the documents without an id.
            fates.append(Fate("unknown") if nameless else journey.fate(set()))
            continue
        held = {
            id(context)
            for context in contexts
            if context.id == identifier or any(shows(context, text) for text in own)
        }
        fates.append(journey.fate(held))
    return fates


def fates_by_text(journey: Journey, golden: Sequence[str], matcher: Matcher) -> tuple[list[str], list[Fate]]:
    """Return the distinct golden texts, and the fate of each.

    A golden text that occurs unchanged in a document is that document; `matcher` decides about the others:
    among documents that differ in a name or a number each is the nearest to the other's golden text, too.
    """
    contexts = list(journey.contexts())
    texts = list(dict.fromkeys(context.text for context in contexts))
    keys = {text: analyse(text).exact_key for text in texts}
    distinct = {analyse(text).exact_key: text for text in reversed(golden)}
    wanted = dict(reversed(distinct.items()))
    found = {key: {text for text, own in keys.items() if key == own or _holds(own, key)} for key in wanted}
    missing = [key for key, own in found.items() if not own]
    near = _near(texts, [wanted[key] for key in missing], matcher.threshold) if missing else []
    if near:
        retrieved, truth = matcher.components(near, [wanted[key] for key in missing])
        for key, match in zip(missing, matcher.match(retrieved, truth), strict=True):
            found[key] = {near[index] for index in match.matched}
    own = _own_ids(journey)
    fates: list[Fate] = []
    for key, text in wanted.items():
        ids = {own[one] for one in found[key] if one in own}
        held = {id(c) for c in contexts if c.text in found[key] or c.id in ids or _is_extract(c, text)}
        fate = journey.fate(held)
        fates.append(_as_cut(journey, fate, key, held) if fate.is_lost is False else fate)
    return list(wanted.values()), fates


def _as_cut(journey: Journey, fate: Fate, key: str, held: set[int]) -> Fate:
    """Return the fate of a text whose document reached the end: the text may have been cut off before."""

    def own(contexts: Iterable[RetrievedContext] | None) -> list[str]:
        return [analyse(c.text).exact_key for c in contexts or () if id(c) in held]

    left = [_parts(text) for text in own(journey.end)]
    if any(key in part or part in key for parts in left for part in parts):
        return fate
    whole = [text for text in own(journey.contexts()) if key in text]
    if not any(all(part in text for part in parts) for parts in left for text in whole):
        return fate  # rewritten, or identified only by the document's id
    lists = zip(journey.names, [own(stage.contexts) for stage in journey.stages], strict=True)
    cutters = (name for name, texts in lists if texts and not any(key in one for one in texts))
    return fate._replace(code="cut_by", stage=next(cutters, UNKNOWN))


def cut_documents(found: Iterable[RetrievedContext], end: Iterable[RetrievedContext]) -> list[RetrievedContext]:
    """Return the documents of the final list that earlier lists have in a longer form."""
    wholes: dict[str, set[str]] = {}
    for context in found:
        if context.id is not None:
            wholes.setdefault(context.id, set()).add(context.text)
    return [
        context
        for context in end
        if context.id is not None
        and context.text not in (known := wholes.get(context.id, set()))
        and any(all(part in whole for part in _parts(context.text)) for whole in known)
    ]


def _parts(text: str) -> list[str]:
    """Return the parts of a document in a prompt, in the form in which adapters join them."""
    return [part for part in text.split(" … ") if part]


def _near(texts: Sequence[str], golden: Sequence[str], threshold: float) -> list[str]:
    """Return the texts that may match a golden one: those with enough of its tokens, in any order.

    Most requests miss a golden text because nothing similar was found; a full comparison costs ten times as
    much.
    """
    wanted = [sorted(analyse(text).tokens, key=len, reverse=True) for text in golden]
    return [text for text in texts if any(_has_most(text, one, threshold) for one in wanted)]


def _has_most(text: str, tokens: Sequence[str], threshold: float) -> bool:
    there: str | set[str] = text.lower() if text.isascii() else set(analyse(text).tokens)
    left = len(tokens) - int(len(tokens) * threshold)
    for token in tokens:
        if token not in there:
            left -= 1
            if left < 0:
                return False
    return bool(tokens)


def _own_ids(journey: Journey) -> dict[str, str]:
    """Return the id of each text if ids identify documents: chunks may share their document's id."""
    names: dict[str, str] = {}
    shared: set[str] = set()
    for contexts in journey.lists():
        here: dict[str, str] = {}
        for context in contexts:
            if context.id is not None:
                names[context.text] = context.id
                if here.setdefault(context.id, context.text) != context.text:
                    shared.add(context.id)
    return {text: name for text, name in names.items() if name not in shared}


def rewritten_documents(
    after: Sequence[RetrievedContext], before: Sequence[RetrievedContext]
) -> list[RetrievedContext]:
    """Return the documents without an id and with a new text, whose originals are unknown."""
    texts = {context.text for context in before}
    return [
        context
        for context in after
        if context.id is None and context.text not in texts and not any(shows(context, text) for text in texts)
    ]


def not_among(found: Sequence[RetrievedContext], end: Sequence[RetrievedContext]) -> list[RetrievedContext]:
    """Return the documents whose text is in no context, by id, as a whole or as an extract."""
    ids = {context.id for context in end if context.id is not None}
    texts = {context.text for context in end}
    return [
        context
        for context in found
        if context.id not in ids
        and context.text not in texts
        and not any(shows(other, context.text) for other in end)
    ]


def shows(context: RetrievedContext, text: str) -> bool:
    """Return whether a context contains a text as a whole, or is an extract of it."""
    return context.text == text or _holds(context.text, text) or _is_extract(context, text)


def _holds(whole: str, part: str) -> bool:
    return MIN_EXTRACT <= len(part) < len(whole) and part in whole


def _is_extract(context: RetrievedContext, text: str) -> bool:
    return context.id is None and _holds(text, context.text)


def _rank(contexts: Sequence[RetrievedContext], held: set[int]) -> int | None:
    return next((rank for rank, c in enumerate(contexts, start=1) if id(c) in held), None)


def _is_beginning(kept: Sequence[RetrievedContext], given: Sequence[RetrievedContext]) -> bool:
    return 0 < len(kept) < len(given) and all(
        one is other or (one.text == other.text and one.id == other.id)
        for one, other in zip(kept, given, strict=False)
    )


def _distinct(names: Sequence[str]) -> list[str]:
    """Return distinct names, none of which is ``prompt``: repeated ones get a number."""
    taken = {PROMPT, OUTPUT, UNKNOWN}
    found: list[str] = []
    for name in names:
        short = " ".join(name.split())[:_MAX_NAME] or UNKNOWN
        unique, number = short, 2
        while unique in taken and (unique != UNKNOWN or UNKNOWN in found):
            unique, number = f"{short}-{number}", number + 1
        taken.add(unique)
        found.append(unique)
    return found
