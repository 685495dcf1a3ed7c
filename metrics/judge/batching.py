"""Answer an `Ask` with as few calls as possible.

`OpenAIJudge` calls it.  It looks into the cache, joins items that another ask is
asking about just then, puts all that is still open into one call, aligns the reply with
the ids, and repeats the call once for the ids without a usable answer.  It knows no HTTP.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from typing import Any, Protocol

from ragmeter.metrics.judge._copied import (
    is_answer_from,
    is_restatement,
    is_sentence_of,
    stands_as_entity,
)
from ragmeter.metrics.judged.prompts import load_prompt

from ._completions import Completion
from .cache import JudgeCache
from .prompts import schema_for, write
from .protocol import Answer, Ask, Group, Item, JudgeError, Reply, Usage
from .replies import UnusableReplyError, read_reply

__all__ = ["Asker", "Flights"]


class Complete(Protocol):
    """Sends messages to the endpoint."""

    def __call__(
        self, metric: str, messages: list[dict[str, str]], schema: dict[str, Any]
    ) -> Awaitable[Completion]:
        """Return the endpoint's reply, or raise `JudgeError`."""
        ...


Flights = dict[bytes, "asyncio.Future[Answer | JudgeError | None]"]
"""Items being asked about on one event loop; None: whoever asked gave up."""

_UNANSWERED = Answer(known=False)
_NOT_TAKEN = Answer(known=False, reason="not found in the text it was to be taken from")

_MOST_ITEMS = 100
"""Items of one call; with more, judges skip some, and replies run into their limit."""
_WOULD_BE_THE_SAME = frozenset({"refusal", "prompt_cut", "reply_cut_off"})
"""What an endpoint says again to whoever asks the same again."""
_MOST_HALVINGS = 2
"""How often the ids of a reply that was cut off are divided."""


@dataclass(slots=True)
class _Tally:
    usage: Usage
    not_taken: dict[str, Answer] = field(default_factory=dict)
    """Answers by id that were said to be taken from a text and are not."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What became of one call."""

    answers: dict[str, Answer]
    error_type: str | None = None
    """Why the reply could not be used, or None."""
    cut_off: bool = False
    """There was a reply, but not all of it."""


class Asker:
    """Asks once, and remembers. Safe on one event loop per `Flights`.

    Args:
        model: Identifies model and endpoint in the cache's keys.
        complete: Sends messages.
        cache: Answers known before; None: nothing is remembered (but concurrent asks still share).
        secret: Key of the delimiters around untrusted texts.
        on_hits: Told of the items answered without asking, and of those asked about.
    """

    def __init__(
        self,
        model: str,
        complete: Complete,
        cache: JudgeCache | None,
        secret: bytes,
        on_hits: Callable[[int, int], None],
    ) -> None:
        self._model = model
        self._complete = complete
        self._cache = cache
        self._secret = secret
        self._on_hits = on_hits

    async def ask(self, ask: Ask, flights: Flights) -> Reply:
        """Answer every item of `ask`.

        Raises:
            JudgeError: The endpoint failed, or no reply could be used.
        """
        keys = {
            item.id: self._key(ask, group, item) for group in ask.groups for item in group.items
        }
        along = {i.id for group in ask.groups if group.shared_with for i in group.items}
        answers: dict[str, Answer] = {}
        tally = _Tally(Usage())
        while len(answers) < len(keys):
            joined = await self._pass(ask, keys, answers, tally, flights)
            for item_id, future in joined.items():
                outcome = await asyncio.shield(future)
                if isinstance(outcome, JudgeError):
                    if item_id not in along:
                        raise outcome.costing(tally.usage)
                    outcome = _UNANSWERED
                if outcome is not None:
                    answers[item_id] = outcome
                    tally.usage += Usage(cache_hits=1)
        hits = tally.usage.cache_hits
        self._on_hits(hits, len(keys) - hits)
        return Reply(answers, tally.usage)

    async def _pass(
        self,
        ask: Ask,
        keys: dict[str, bytes],
        answers: dict[str, Answer],
        tally: _Tally,
        flights: Flights,
    ) -> dict[str, asyncio.Future[Answer | JudgeError | None]]:
        """Fill `answers` from the cache and by one call; return what others are asking about."""
        own: dict[str, asyncio.Future[Answer | JudgeError | None]] = {}
        joined: dict[str, asyncio.Future[Answer | JudgeError | None]] = {}
        groups = {item.id: group for group in ask.groups for item in group.items}
        kept = await self._kept([key for i, key in keys.items() if i not in answers])
        for item_id, key in keys.items():
            if item_id in answers:
                continue
            known = kept.get(key)
            if known is None and self._cache is not None:
                known = self._cache.recall(key)
            if known is not None and groups[item_id].takes(known.value):
                answers[item_id] = known
                tally.usage += Usage(cache_hits=1)
            elif key in flights:
                joined[item_id] = flights[key]
            else:
                own[item_id] = flights[key] = asyncio.get_running_loop().create_future()
        if own:
            found: dict[str, Answer] = {}
            failure: JudgeError | None = None
            finished = False
            try:
                given = await self._answered(ask, list(own), tally)
                found = {i: given.get(i) or tally.not_taken.get(i, _UNANSWERED) for i in own}
                finished = True
            except JudgeError as error:
                failure = error
                raise
            finally:
                for item_id, future in own.items():
                    del flights[keys[item_id]]
                    # Neither finished nor failed: cancelled, and whoever joined asks for itself.
                    result = found[item_id] if finished else failure
                    if isinstance(result, Answer) and result.known and self._cache is not None:
                        self._cache.remember(keys[item_id], result)
                    if not future.done():
                        future.set_result(result)
            answers.update(found)
        return joined

    async def _kept(self, keys: list[bytes]) -> dict[bytes, Answer]:
        """Return what the cache's file has."""
        return await self._cache.fetch(keys) if self._cache is not None else {}

    async def _answered(self, ask: Ask, ids: list[str], tally: _Tally) -> dict[str, Answer]:
        """Ask about `ids`: in one call, or where they are many in several of even size."""
        try:
            return await self._in_parts(ask, _even_parts(ids, _MOST_ITEMS), tally, _MOST_HALVINGS)
        except JudgeError as error:
            raise error.costing(tally.usage) from None

    async def _in_parts(
        self, ask: Ask, parts: list[list[str]], tally: _Tally, halvings: int
    ) -> dict[str, Answer]:
        """Ask about each of `parts`, at once; a part that fails leaves only its own ids unanswered."""
        if len(parts) == 1:
            return await self._part(ask, parts[0], tally, halvings)
        answers: dict[str, Answer] = {}
        failures: list[JudgeError] = []

        async def answer(part: list[str]) -> None:
            try:
                answers.update(await self._part(ask, part, tally, halvings))
            except JudgeError as error:
                failures.append(error)

        tasks = [asyncio.ensure_future(answer(part)) for part in parts]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        if failures and not answers:
            raise failures[0]
        return answers

    async def _part(
        self, ask: Ask, ids: list[str], tally: _Tally, halvings: int
    ) -> dict[str, Answer]:
        """Ask about `ids`, and once more about those without a usable answer.

        A reply that was cut off would be cut off again: its ids are asked in halves instead. What the
        judge refuses to judge it is not asked again.
        """
        first = await self._call(ask, ids, tally)
        if first.cut_off and len(ids) > 1 and halvings:
            halves = _even_parts(ids, -(-len(ids) // 2))
            return await self._in_parts(ask, halves, tally, halvings - 1)
        answers, outcome = dict(first.answers), first
        missing = [item_id for item_id in ids if item_id not in answers]
        if missing and first.error_type not in _WOULD_BE_THE_SAME:
            try:
                second = await self._call(ask, missing, tally)
            except JudgeError:
                if not answers:
                    raise
            else:
                answers.update(second.answers)
                outcome = second if first.error_type else first
        if not answers and outcome.error_type is not None:
            twice = "" if outcome is first else ", twice"
            raise JudgeError(f"the judge gave no usable reply{twice}", outcome.error_type)
        return answers

    async def _call(self, ask: Ask, ids: list[str], tally: _Tally) -> _Outcome:
        open_ids = frozenset(ids)
        written = write(ask, open_ids, self._secret)
        try:
            completion = await self._complete(
                ask.metric, written.messages, schema_for(ask, open_ids)
            )
        except JudgeError as error:
            tally.usage += error.usage
            raise
        tally.usage += Usage(completion.calls, completion.input_tokens, completion.output_tokens)
        if completion.error_type is not None:
            cut_off = completion.error_type == "reply_cut_off" and bool(completion.text)
            return _Outcome({}, completion.error_type, cut_off)
        shown = f"{_shown(ask)}\n{written.task}"
        groups = ask.groups_for(open_ids)
        try:
            read = read_reply(completion.text, groups, shown, written.tag)
        except UnusableReplyError:
            return _Outcome({}, "unusable_reply")
        answers: dict[str, Answer] = {}
        for group in groups:
            for item in group.items:
                if item.id not in open_ids or item.id not in read:
                    continue
                if _is_taken(read[item.id], group, item):
                    answers[item.id] = read[item.id]
                else:
                    tally.not_taken[item.id] = _NOT_TAKEN
        return _Outcome(answers)

    def _key(self, ask: Ask, group: Group, item: Item) -> bytes:
        prompt = group.shared_with or ask.prompt
        version = load_prompt(prompt).version
        if ask.prompt_with_shared is not None and group.shared_with is None:
            version += f"+{load_prompt(ask.prompt_with_shared).version}"
        parts = [self._model, prompt, version, group.name, group.kind, *item.depends_on]
        return sha256(json.dumps(parts).encode()).digest()


def _shown(ask: Ask) -> str:
    """Return all that others wrote of what the judge gets to read."""
    texts = (
        text
        for passage in ask.passages
        for text in ([line for _, line in passage.lines] or [passage.text])
    )
    return "\n".join(texts)


def _even_parts(ids: list[str], most: int) -> list[list[str]]:
    """Divide `ids`, in order, into as few parts of at most `most` as will do, of even size."""
    count = -(-len(ids) // most)
    ends = [len(ids) * number // count for number in range(count + 1)]
    return [ids[start:end] for start, end in pairwise(ends)]


def _is_taken(answer: Answer, group: Group, item: Item) -> bool:
    """Return whether `answer` is taken from the item's source, as far as it says anything.

    Of several copies one that stands there is enough: the metric looks at each of them.
    """
    source, value = item.source, answer.value
    if source is None or not value or isinstance(value, bool):
        return True
    if isinstance(value, str):
        return is_answer_from(value, source)
    if group.taken == "reworded":
        return all(isinstance(text, str) and is_restatement(text, source) for text in value)
    return any(
        stands_as_entity(part, source) and not is_sentence_of(part, source)
        if isinstance(part, str)
        else part[1] is None or is_answer_from(part[1], source)
        for part in value
    )
