"""Answer an `Ask` with as few calls as possible.

`OpenAIJudge` calls it.  It looks into the cache, joins items that another ask is
asking about just then, puts all that is still open into one call, aligns the reply with
the ids, and repeats the call once for the ids without a usable answer.  It knows no HTTP.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol

from ragmeter.metrics.prompts import load_prompt

from .cache import JudgeCache
from .contract import Answer, Ask, Group, Item, JudgeError, Reply, Usage
from .prompting import messages_for, schema_for
from .replies import UnusableReplyError, read_reply

__all__ = ["Asker", "Completion", "Flights"]


@dataclass(frozen=True, slots=True)
class Completion:
    """What the endpoint wrote."""

    text: str
    """The reply."""
    input_tokens: int
    """Prompt tokens."""
    output_tokens: int
    """Completion tokens."""
    error_type: str | None = None
    """Why the reply is no answer though the call went well, e.g. ``refusal``."""


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


@dataclass(slots=True)
class _Tally:
    usage: Usage
    error_type: str | None = None
    """Class of the last reply that could not be used."""
    usable_replies: int = 0


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
        for item_id, key in keys.items():
            if item_id in answers:
                continue
            known = self._cache.get(key) if self._cache is not None else None
            if known is not None:
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
                found = await self._answered(ask, list(own), tally)
                finished = True
            except JudgeError as error:
                failure = error
                raise
            finally:
                for item_id, future in own.items():
                    del flights[keys[item_id]]
                    # Neither finished nor failed: cancelled, and whoever joined asks for itself.
                    result = found.get(item_id, _UNANSWERED) if finished else failure
                    if isinstance(result, Answer) and result.known and self._cache is not None:
                        self._cache.put(keys[item_id], result)
                    if not future.done():
                        future.set_result(result)
            answers.update({item_id: found.get(item_id, _UNANSWERED) for item_id in own})
        return joined

    async def _answered(self, ask: Ask, ids: list[str], tally: _Tally) -> dict[str, Answer]:
        """Ask about `ids`, and once more about those without a usable answer."""
        answers = await self._call(ask, ids, tally)
        missing = [item_id for item_id in ids if item_id not in answers]
        if missing:
            try:
                answers.update(await self._call(ask, missing, tally))
            except JudgeError as error:
                if not answers:
                    raise error.costing(tally.usage) from None
        if not answers and not tally.usable_replies:
            raise JudgeError(
                "the judge gave no usable reply, twice",
                tally.error_type or "unusable_reply",
                usage=tally.usage,
            )
        return answers

    async def _call(self, ask: Ask, ids: list[str], tally: _Tally) -> dict[str, Answer]:
        open_ids = frozenset(ids)
        messages = messages_for(ask, open_ids, self._secret)
        try:
            completion = await self._complete(ask.metric, messages, schema_for(ask, open_ids))
        except JudgeError as error:
            tally.usage += error.usage
            raise error.costing(tally.usage) from None
        tally.usage += Usage(1, completion.input_tokens, completion.output_tokens)
        if completion.error_type is not None:
            tally.error_type = completion.error_type
            return {}
        try:
            answers = read_reply(completion.text, ask.groups_for(open_ids), _shown(ask))
        except UnusableReplyError:
            tally.error_type = "unusable_reply"
            return {}
        tally.usable_replies += 1
        return {item_id: answer for item_id, answer in answers.items() if item_id in ids}

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
