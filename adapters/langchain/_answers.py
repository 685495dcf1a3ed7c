"""Which model calls of a LangChain request gave the answer, and what their prompts showed; on the worker.

A request may call models for much else: to rewrite the query, to grade a document, to moderate, to suggest
further questions. What counts is what the answering call was sent, and what those calls were sent whose
words stand in its prompt: the drafts of a map-reduce or refine chain. Prompts are compared
here and forgotten with the request's notes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ragmeter.adapters._answers import Said, is_long, texts_that_said
from ragmeter.adapters._heard import heard
from ragmeter.adapters._prompts import Prompt, seen_in_prompts

from ._calls import prompt_sent
from ._state import LlmNote, OpenRequest, Run

__all__ = ["call_before_answer", "said_by", "shown"]

MAX_CALLS = 100
"""So many calls are looked at; the last ones."""

MAX_COMPARED = 4_000_000
"""Characters of prompts in which drafts are looked for."""


def said_by(request: OpenRequest, contexts: Sequence[str]) -> list[Said]:
    """Return what each call said, and whether a retrieved text stood in its prompt."""
    calls = [(_words(note), note.run) for note in _calls(request)]
    return heard([(text, prompt_sent(run.sent)) for text, run in calls if text], contexts)


def call_before_answer(request: OpenRequest, answer: str | None) -> LlmNote | None:
    """Return the call before which everything happened that the answer is from; None: it is not seen.

    A call that is not known to have answered, and that began before a retrieval was over or within a
    function that gave out documents, did something else: it graded them, say, and the answer comes from a
    model that LangChain does not know.
    """
    note, is_known = _answering_call(request, answer)
    if note is None or is_known:
        return note
    for one in request.retrievals:
        if one.contexts and one.ended_order is not None and note.run.order < one.ended_order:
            return None
    choosing = {id(passage.run) for passage in request.passages}
    run = note.run.parent
    while run is not None:
        if id(run) in choosing and run.parent is not None:
            return None
        run = run.parent
    return note


def _answering_call(request: OpenRequest, answer: str | None) -> tuple[LlmNote | None, bool]:
    """Return the call that gave the answer, and whether it is known to have.

    It is known if its words are the answer. Else it is the last one.
    """
    authors = _authors(request, answer)
    if authors:
        return authors[-1], True
    calls = _calls(request)
    return (calls[-1] if calls else None), False


def shown(
    request: OpenRequest, answer: str | None, contexts: Sequence[str], question: str | None
) -> tuple[int, ...] | None:
    """Return which contexts stand in the prompts of the answering calls, in their order; None: none does.

    Where no call is known to have given the answer, e.g. because a function rendered it, the last call
    decides that shows anything and says more than a verdict.
    """
    note, is_known = _answering_call(request, answer)
    if not is_known:
        last = -1 if note is None else note.run.order
        unfinished = [run for run in request.unfinished() if run.sent and run.order > last]
        if unfinished:
            return _seen(request, unfinished, contexts, question)
    if is_known:
        runs = [author.run for author in _authors(request, answer)]
        return _seen(request, runs, contexts, question)
    for call in reversed(_calls(request)):
        if is_long(_words(call) or ""):
            seen = _seen(request, [call.run], contexts, question)
            if seen is not None:
                return seen
    return None


def _calls(request: OpenRequest) -> list[LlmNote]:
    return sorted(request.llms, key=lambda note: note.run.order)[-MAX_CALLS:]


def _words(note: LlmNote) -> str | None:
    if note.text or not note.arguments:
        return note.text
    return json.dumps(note.arguments, ensure_ascii=False, default=str)


def _authors(request: OpenRequest, answer: str | None) -> list[LlmNote]:
    """Return the calls whose words are the answer: one, or all whose parts it was joined from."""
    if answer is None:
        return []
    calls = [(note, text) for note in _calls(request) if (text := _words(note))]
    return [calls[place][0] for place in texts_that_said(answer, [text for _, text in calls])]


def _plain(text: object) -> str:
    return " ".join(str(text).split()).strip("\"'")


def _seen(
    request: OpenRequest, roots: Sequence[Run], contexts: Sequence[str], question: str | None
) -> tuple[int, ...] | None:
    counted = _with_drafts(request, roots, contexts)
    prompts = [prompt_sent(run.sent) for run in sorted(counted, key=lambda run: run.order)]
    return seen_in_prompts(contexts, prompts, question)


def _with_drafts(request: OpenRequest, roots: Sequence[Run], contexts: Sequence[str]) -> list[Run]:
    """Return calls, and the earlier calls whose words stand in their prompts, and so on.

    A rewritten query stands there, too, but what the rewriter was sent is not what the answer is from.
    Nor is what an extractor was sent whose words became a document: that document was seen. Steps of
    an agent are sent one conversation, ever longer: those that show nothing else are left out.
    """
    others = {_plain(note.query) for note in request.retrievals} | set(map(_plain, contexts))
    drafts = [
        note
        for note in _calls(request)
        if is_long(note.text or "") and _plain(note.text) not in others
    ]
    counted = list(roots)
    waiting = list(roots)
    shown = {id(text) for run in roots for _, texts in run.sent for text in texts}
    size = 0
    while waiting and size < MAX_COMPARED:
        run = waiting.pop()
        earlier = [
            note
            for note in drafts
            if note.run.order < run.order
            and note.run not in counted
            and any(id(text) not in shown for _, texts in note.run.sent for text in texts)
        ]
        if not earlier:
            continue
        prompt = prompt_sent(run.sent)
        whole = Prompt((*prompt.history, *prompt.texts))
        size += sum(map(len, whole.texts))
        seen = seen_in_prompts([note.text or "" for note in earlier], [whole]) or ()
        for index in seen:
            draft = earlier[index].run
            counted.append(draft)
            waiting.append(draft)
            shown.update(id(text) for _, texts in draft.sent for text in texts)
    return counted
