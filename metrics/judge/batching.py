"""Answer an `Ask` with as few calls as possible.

`OpenAIJudge` calls it, and it calls the cache, the endpoint and the reader of replies. It reads the cache,
joins items that are pending in another ask, sends the rest in one call, aligns the reply with the ids, and
asks again for ids without a usable answer. It knows no HTTP.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256

from ragmeter.metrics.judged.prompts import load_prompt
from ragmeter.metrics.text.quote_check import is_answer_from, is_restatement, is_sentence_of, stands_as_entity

from ._loop_resources import Flight, LoopResources
from .bypass_cache import is_cache_bypassed
from .cache import JudgeCache
from .endpoint import ChatEndpoint
from .halving import Halving, halving
from .prompts import SentAsk, schema_for, write
from .protocol import Answer, Ask, Group, Item, JudgeError, Reply, Usage
from .replies import READER, UnusableReplyError, read_reply

_UNANSWERED = Answer(known=False)
_NOT_TAKEN = Answer(known=False, reason="not found in the text it was to be taken from")

_MOST_ITEMS = 100
"""Most items of one call; with more, judges skip some, and replies reach their limit."""
_WOULD_BE_THE_SAME = frozenset({"refusal", "prompt_cut", "reply_cut_off"})
"""Failures that would occur again if the same request were sent again."""
_MOST_HALVINGS = 2
"""How often the ids of a cut-off reply are halved."""


@dataclass(slots=True)
class _OpenAsk:
    """One unanswered ask."""

    ask: Ask
    here: LoopResources
    usage: Usage = field(default_factory=Usage)
    not_taken: dict[str, Answer] = field(default_factory=dict)
    """Answers by id that should be quotations but are not in their text."""
    halving: Halving = field(default_factory=halving)
    was_cut_off: bool = False
    fitting: int = _MOST_ITEMS
    """Size of a successful call after a cut-off reply, in ids."""


class Batching:
    """Asks for each item once, and caches the answers. Safe on one event loop per `LoopResources`.

    In the cache's keys `identity` stands for model and endpoint; without a cache concurrent asks still share.
    `secret` is the key of the delimiters around untrusted texts.
    """

    def __init__(self, identity: str, endpoint: ChatEndpoint, cache: JudgeCache | None, secret: bytes) -> None:
        self._identity = identity
        self._endpoint = endpoint
        self._cache = cache
        self._secret = secret

    async def ask(self, ask: Ask, here: LoopResources) -> Reply:
        """Answer every item of `ask`.

        Raises:
            JudgeError: The endpoint failed, or no reply could be used.
        """
        groups = {item.id: group for group in ask.groups for item in group.items}
        keys = {i.id: self._key(ask, group, i) for group in ask.groups for i in group.items}
        answers: dict[str, Answer] = {}
        asking = _OpenAsk(ask, here)
        cache = None if is_cache_bypassed() else self._cache
        while len(answers) < len(keys):
            own: dict[str, Flight] = {}
            joined: dict[str, Flight] = {}
            wanted = {item_id: key for item_id, key in keys.items() if item_id not in answers}
            kept = {} if cache is None else await cache.fetch([*wanted.values()])
            for item_id, key in wanted.items():
                if (known := kept.get(key)) is not None and groups[item_id].takes(known.value):
                    answers[item_id] = known
                    asking.usage += Usage(cache_hits=1)
                elif key in here.flights:
                    joined[item_id] = here.flights[key]
                else:
                    own[item_id] = here.flights[key] = asyncio.get_running_loop().create_future()
            if own:
                with self._settle(asking, keys, own, cache) as found:
                    given = await self._part(asking, list(own), _MOST_HALVINGS)
                    found.update({one: asking.not_taken.get(one, _UNANSWERED) for one in own} | given)
                answers.update(found)
            for item_id, flight in joined.items():
                outcome = await asyncio.shield(flight)
                if isinstance(outcome, JudgeError):
                    if groups[item_id].shared_with is None:
                        raise outcome.costing(asking.usage)
                    outcome = _UNANSWERED
                if outcome is not None:
                    answers[item_id] = outcome
                    asking.usage += Usage(cache_hits=1)
        return Reply(answers, asking.usage)

    @contextmanager
    def _settle(
        self, asking: _OpenAsk, keys: dict[str, bytes], own: dict[str, Flight], cache: JudgeCache | None
    ) -> Iterator[dict[str, Answer]]:
        """Pass the outcome of `own` to the asks that joined it; keep the answers found in the cache."""
        found: dict[str, Answer] = {}
        failure: JudgeError | None = None
        try:
            yield found
        except JudgeError as error:
            failure = error.costing(asking.usage)
            raise failure from None
        finally:
            for item_id, flight in own.items():
                del asking.here.flights[keys[item_id]]
                # Neither an answer nor a failure: it was cancelled, and the asks that joined ask again.
                answer = found.get(item_id)
                if answer is not None and answer.known and cache is not None:
                    cache.remember(keys[item_id], answer)
                if not flight.done():
                    flight.set_result(answer or failure)

    async def _part(self, asking: _OpenAsk, ids: list[str], halvings: int) -> dict[str, Answer]:
        """Ask about `ids` in one call, and once more about those without a usable answer.

        A cut-off reply would be cut off again: its ids are asked in halves instead. Refused items are not
        asked again.
        """
        if len(ids) > _MOST_ITEMS:
            return await self._parts(asking, ids, halvings)
        ask = asking.ask
        answers: dict[str, Answer] = {}
        error: str | None = None
        for again in (False, True):
            open_ids = frozenset(ids).difference(answers)
            written = write(ask, open_ids, self._secret)
            schema = schema_for(ask, open_ids)
            try:
                completion = await self._endpoint.complete(asking.here, ask.metric, written.messages, schema)
            except JudgeError as failure:
                asking.usage += failure.usage
                if answers:
                    break
                raise
            took = Usage(completion.calls, completion.input_tokens, completion.output_tokens)
            asking.usage += took
            outcome = completion.error_type
            if outcome == "reply_cut_off":
                asking.was_cut_off = True
                asking.halving.cut_off += halvings < _MOST_HALVINGS
                if completion.text and len(ids) > 1 and halvings and not again:
                    if halvings < _MOST_HALVINGS:
                        return await self._halves(asking, ids, halvings - 1)
                    async with asking.halving.turn:
                        return await self._halves(asking, ids, halvings - 1)
            elif asking.was_cut_off:
                asking.fitting = min(asking.fitting, len(ids))
            if outcome is None:
                try:
                    answers |= self._read(asking, open_ids, completion.text, written)
                except UnusableReplyError:
                    outcome = "unusable_reply"
            if error is not None or not again:
                error = outcome
            if len(answers) == len(ids) or error in _WOULD_BE_THE_SAME:
                break
        if not answers and error is not None:
            twice = ", twice" if again else ""
            raise JudgeError(f"the judge gave no usable reply{twice}", error)
        return answers

    async def _halves(self, asking: _OpenAsk, ids: list[str], halvings: int) -> dict[str, Answer]:
        """Ask about half of `ids`, and then about the others in parts of the size that succeeded.

        Sequentially, so that a model whose every reply is cut off is asked only a few times per request.
        """
        half = -(-len(ids) // 2)
        answers: dict[str, Answer] = {}
        failure: JudgeError | None = None
        at = 0
        while at < len(ids) and not asking.halving.is_over:
            part = ids[at : at + min(half, asking.fitting)]
            at += len(part)
            try:
                answers |= await self._part(asking, part, halvings)
            except JudgeError as error:
                failure = error
        if not answers:
            raise failure or JudgeError("every reply was cut off", "reply_cut_off")
        return answers

    def _read(
        self, asking: _OpenAsk, open_ids: frozenset[str], text: str, written: SentAsk
    ) -> dict[str, Answer]:
        """Return the usable answers in `text`; record those that were not taken from their source.

        Raises:
            UnusableReplyError: It has no answers, or answers to something else.
        """
        groups = asking.ask.groups_for(open_ids)
        texts = [line for one in asking.ask.passages for _, line in (one.lines or (("", one.text),))]
        read = read_reply(text, groups, "\n".join([*texts, written.task]), written.tag)
        answers: dict[str, Answer] = {}
        for group in groups:
            for item in group.items:
                if item.id not in open_ids or item.id not in read:
                    continue
                if _is_taken(read[item.id], group, item):
                    answers[item.id] = read[item.id]
                else:
                    asking.not_taken[item.id] = _NOT_TAKEN
        return answers

    async def _parts(self, asking: _OpenAsk, ids: list[str], halvings: int) -> dict[str, Answer]:
        """Ask about even parts of `ids` concurrently; a failing one leaves only its own unanswered."""
        answers: dict[str, Answer] = {}
        failures: list[JudgeError] = []
        count = -(-len(ids) // _MOST_ITEMS)

        async def answer(number: int) -> None:
            part = ids[len(ids) * number // count : len(ids) * (number + 1) // count]
            try:
                answers.update(await self._part(asking, part, halvings))
            except JudgeError as error:
                failures.append(error)

        await asyncio.gather(*map(answer, range(count)))
        if failures and not answers:
            raise failures[0]
        return answers

    def _key(self, ask: Ask, group: Group, item: Item) -> bytes:
        prompt = group.shared_with or ask.prompt
        along = () if group.shared_with else sorted(ask.prompts_with_shared.values())
        version = "+".join(load_prompt(name).version for name in (prompt, *along))
        parts = [READER, self._identity, prompt, version, group.name, group.kind, *item.depends_on]
        return sha256(json.dumps(parts).encode()).digest()


def _is_taken(answer: Answer, group: Group, item: Item) -> bool:
    """Return whether `answer` is taken from the item's source, or is empty.

    Of several copies one in the source is enough: the metric checks each of them.
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
