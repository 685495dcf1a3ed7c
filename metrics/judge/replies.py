"""Reads the judge's reply: only if it is strictly aligned with the questions.

`Batching` calls it. A verdict is read only from its place in a JSON object, under the requested id: prose is
never searched for digits or words like yes, nothing is evaluated, and an integer other than 0 and 1 is not a
verdict.

A reply is one JSON value and nothing else; or thoughts, up to their last end mark, then words, then one object,
fenced or not.  Anything after it (words, another object, whole, cut off or invalid, another fence, a tag, an
open thought) may retract it: then the reply answers nothing.  Nor does a reply that states a failure, nor an
object that is a part of a sentence ("I take back {...").
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from ragmeter.metrics.sample import THOUGHT_TAGS

from ._stated_failures import is_failure
from .protocol import Answer, AnswerValue, Group

READER = 5
"""Version of the rules by which replies are read; cached answers under another one are not used."""

_TRUE = frozenset({"true", "yes", "1", "да", "是"})
_FALSE = frozenset({"false", "no", "0", "нет", "否"})

_LONGEST_REASON = 500
"""Longest stored reason, in characters; twelve words were requested."""

_EXAMPLE = re.compile(r"[a-z]+0+")
"""Ids are numbered from 1, except for those of the prompts' examples."""
_THOUGHTS = rf"(?:\w+:)?(?:{THOUGHT_TAGS}|thoughts|reflection|analysis|scratchpad)"
_THINKING_ENDS = re.compile(
    rf"<\s*/\s*{_THOUGHTS}\s*>|◁/think▷|\[/THINK\]|<\|end_of_thought\|>|<\|(?:end_(?:of_)?|/)think(?:ing)?\|>"
    r"|<\|channel\|>\s*final(?:(?!<\|message\|>).){0,80}<\|message\|>|assistantfinal(?=\s*[\[{`])",
    re.IGNORECASE,
)
_THINKING_BEGINS = re.compile(
    rf"<{_THOUGHTS}(?:\s[^<>]*)?>|◁think▷|\[THINK\]|<\|begin_of_thought\|>|<\|channel\|>"
    r"|<\|(?:(?:start|begin)_(?:of_)?)?think(?:ing)?\|>",
    re.IGNORECASE,
)
_BEGINNING = re.compile(r"\{|\[\s*[\[{\"]")
"""End of an object, or of a list of allowed items."""
_FENCE = re.compile("`{3,}|~{3,}")
_ANNOUNCED = re.compile(r"(?:(?:^|\n|[^\w\s]|```\w*|~~~\w*)[ \t]*)\Z")
"""Text before an object that is not part of a sentence, which could be about a retracted verdict."""
_LAST_MARKS = re.compile(
    r"<\|(?:end_of_box|im_end|eot_id|eom_id|end|endoftext|end_of_text|return|end_response)\|>|</s>|<end_of_turn>|<eos>"
    r"|</(?:final_?)?(?:answer|output|json|result|response)\s*>",
    re.IGNORECASE,
)
"""Allowed end of a reply, or closing of its enclosure."""
_COURTESY = re.compile(
    r"(?:i )?hope (?:this|that) helps|done"
    r"|let me know(?: if you have (?:any )?(?:other |further |more )?questions)?"
    r"|надеюсь,? (?:это )?(?:поможет|помогло)|готово"
    r"|以上[是为即](?:我的)?(?:判断|评估|回答|答案|结果)|希望[对能]您?有所?帮助",
    re.IGNORECASE,
)
"""Allowed words after a reply, which retract nothing. Other words may, and are never interpreted."""
_FULL_STOPS = frozenset(".。｡．")
_AROUND = " \t\n\r\u00a0\u3000.。｡．"
_AROUND += "\"'`“”„‟‘’‚«»‹›「」『』＂＇()[]{}<>（）［］｛｝【】〔〕〈〉《》"
_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}


class UnusableReplyError(ValueError):
    """The reply has no JSON object of the requested form."""


def read_reply(text: str, groups: Iterable[Group], shown: str = "", tag: str = "") -> dict[str, Answer]:
    """Return the answers in `text`, by item id; items without a usable answer are left out.

    A group that answers an unrequested id is not aligned with the question and counts as not answered; so
    does one item answered twice in different ways. An object that occurs in what the judge was `shown` is a
    quotation, not an answer: the author of that text would be the judge. An id without this ask's `tag` comes
    from another request or from a guess, and one that ends with the number 0 from the prompt's example: such
    a reply answers nothing.

    Raises:
        UnusableReplyError: There is no single JSON object (or it has none of the groups), or it is
            the answer to something else.
    """
    groups = tuple(groups)
    reply = _only_object(text, groups, shown)
    answers: dict[str, Answer] = {}
    for group in groups:
        if group.name in reply:
            answers.update(_read_group(reply[group.name], group, tag))
    return answers


def _only_object(text: str, groups: tuple[Group, ...], shown: str) -> dict[str, Any]:
    candidate, reply = _only_value(text.removeprefix("\ufeff").strip())
    if "".join(candidate.split()) in "".join(shown.split()):
        raise UnusableReplyError("the reply quotes a text it was shown")
    if isinstance(reply, dict) and is_failure(reply):
        raise UnusableReplyError("the reply says that it failed")
    if isinstance(reply, list) and len(groups) == 1:
        reply = {groups[0].name: reply}
    names = {group.name for group in groups}
    if not isinstance(reply, dict) or names.isdisjoint(reply):
        raise UnusableReplyError("the reply has not the form asked for")
    more = [reply[name] for name in reply.keys() - names]
    if any(isinstance(said, bool) or "verdict" in str(said) for said in more):
        raise UnusableReplyError("the reply says something about itself")  # {"retracted": true, ...
    return reply


def _only_value(text: str) -> tuple[str, Any]:
    """Return the one JSON value of a reply, as text and parsed."""
    with suppress(ValueError, RecursionError):
        # A thought mark inside a string does not count.
        value, end = _DECODER.raw_decode(text)
        if end == len(text):
            return text, value
    text = after_thinking(text)
    beginning = _BEGINNING.search(text)
    if beginning is None:
        raise UnusableReplyError("the reply has no JSON object")
    start = beginning.start()
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        raise UnusableReplyError("the reply is not valid JSON") from error
    following = text[end:]
    closing = _FENCE.findall(following)
    said_after = _COURTESY.sub("", _LAST_MARKS.sub("", _FENCE.sub("", following)))
    if closing != _open_fences(text, start)[: len(closing)] or said_after.strip(" .!;。！\t\r\n"):
        raise UnusableReplyError("the reply goes on after its JSON object")
    if _ANNOUNCED.search(text, 0, start) is None:
        raise UnusableReplyError("the JSON object is a part of a sentence")
    if _THINKING_BEGINS.search(text, 0, start):
        raise UnusableReplyError("the reply goes on thinking")
    return text[start:end], value


def _open_fences(text: str, end: int) -> list[str]:
    """Return the code fences that are open at a position, the last one first."""
    opened: list[str] = []
    for fence in _FENCE.findall(text, 0, end):
        if fence in opened:
            del opened[: opened.index(fence) + 1]
        else:
            opened.insert(0, fence)
    return opened


def after_thinking(text: str) -> str:
    """Return the text after the last thought; empty if the reply begins with one that never ends."""
    end = 0
    for match in _THINKING_ENDS.finditer(text):
        end = match.end()
    rest = text[end:].strip()
    return "" if _THINKING_BEGINS.match(rest) else rest


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise UnusableReplyError("the reply repeats a key")
    return result


_DECODER = json.JSONDecoder(object_pairs_hook=_no_repeats)


def _read_group(body: Any, group: Group, tag: str) -> dict[str, Answer]:
    asked = {f"{tag}{item.id}": item.id for item in group.items}
    answers: dict[str, Answer] = {}
    contradicted: set[str] = set()
    foreign = False
    for said_id, answer in _entries(body, group):
        item_id = asked.get(said_id)
        if item_id is None:
            if not said_id.startswith(tag):
                raise UnusableReplyError("the reply answers another request")
            if _EXAMPLE.fullmatch(said_id):
                raise UnusableReplyError("the reply repeats the prompt's example")
            foreign = True
            continue
        before = answers.setdefault(item_id, answer)
        if before.known != answer.known or before.value != answer.value:
            contradicted.add(item_id)
    if foreign:
        return {}
    return {
        item_id: answer for item_id, answer in answers.items() if answer.known and item_id not in contradicted
    }


def _entries(body: Any, group: Group) -> Iterable[tuple[str, Answer]]:
    if group.compact and isinstance(body, dict):
        for word, value in (("true", True), ("false", False)):
            listed = body.get(word)
            for entry in listed if isinstance(listed, list) else ():
                explained = entry if isinstance(entry, dict) else {"id": entry}
                if "id" in explained and not _is_copied(explained):
                    said = _read_reason(explained)
                    yield _id(explained["id"]), Answer(known=True, value=value, reason=said)
        return
    for entry in body if isinstance(body, list) else ():
        if isinstance(entry, dict) and "id" in entry and not _is_copied(entry):
            yield _id(entry["id"]), _read_entry(entry, group)


def _is_copied(entry: dict[str, Any]) -> bool:
    """Return whether an entry's reason is still the dots of the template, so that it was only copied."""
    reason = entry.get("reason")
    return isinstance(reason, str) and reason.strip() in ("...", "…")


def _id(value: Any) -> str:
    return value.strip() if isinstance(value, str) else str(value)


def _read_entry(entry: dict[str, Any], group: Group) -> Answer:
    known, value = _read_value(entry, group)
    if group.kind in ("verdict", "choice"):
        for name, said in entry.items():
            if isinstance(said, bool) or "verdict" in name.casefold():  # {"final_verdict": ...
                stated, other = _read_value({"verdict": said}, group)
                known = known and (not stated or other == value)
    return Answer(known=known, value=value, reason=_read_reason(entry))


def _read_reason(entry: dict[str, Any]) -> str | None:
    reason = entry.get("reason")
    said = reason.strip()[:_LONGEST_REASON] if isinstance(reason, str) else ""
    return said if says_something(said) else None


def says_something(text: str) -> bool:
    """Return whether `text` has a letter or a digit, as dots and dashes alone are no content."""
    return any(map(str.isalnum, text))


def _read_value(entry: dict[str, Any], group: Group) -> tuple[bool, AnswerValue]:
    if group.kind == "verdict":
        verdict = read_verdict(entry.get("verdict"))
        return verdict is not None, verdict
    if group.kind == "choice":
        word = _read_choice(entry.get("verdict"), group.choices)
        return word is not None, word
    if group.kind == "text":
        return _read_text(entry.get("answer", 0))
    if group.kind == "texts":
        texts = entry.get("texts")
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            return False, None
        read = tuple(stripped for text in texts if says_something(stripped := text.strip()))
        # A list with nothing but dots is invalid, an empty one is valid.
        return bool(read) or not texts, read
    return _read_pairs(entry.get("pairs"))


def _read_text(answer: Any) -> tuple[bool, str | None]:
    """Return whether `answer` is a text, and the text; empty and null mean that there is none."""
    if answer is None:
        return True, None
    if not isinstance(answer, str):
        return False, None
    said = answer.strip()
    return not said or says_something(said), said or None


def _read_pairs(pairs: Any) -> tuple[bool, AnswerValue]:
    if not isinstance(pairs, list):
        return False, None
    read: list[tuple[str, str | None]] = []
    for pair in pairs:
        question = pair.get("question") if isinstance(pair, dict) else None
        answer = pair.get("answer", 0) if isinstance(pair, dict) else 0
        if not isinstance(question, str) or not (answer is None or isinstance(answer, str)):
            return False, None
        known, said = _read_text(answer)
        if known and says_something(question):
            read.append((question.strip(), said))
    return bool(read) or not pairs, tuple(read)


def _plain(word: str) -> str:
    """Return a word in lower case, without surrounding quotes, brackets, full stops and blanks."""
    bare = word.strip(_AROUND)
    before = word[: word.find(bare)]
    if bare[:1].isdigit() and not _FULL_STOPS.isdisjoint(before):
        return word  # .1 is another number
    return bare.translate(_WIDE).casefold()


def read_verdict(value: Any) -> bool | None:
    """Return the verdict that `value` states, or None.

    True and False are verdicts; so are 0, 1 and the words true, yes, да, 是 and false, no, нет,
    否, in any case and width, with quotes, brackets, full stops and blanks around them, for endpoints that
    cannot be held to booleans.  Nothing else is: not 2, not -1, not 1.0, not "maybe", not "!true".
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return {0: False, 1: True}.get(value)
    if isinstance(value, str):
        word = _plain(value)
        return True if word in _TRUE else False if word in _FALSE else None
    return None


def _read_choice(value: Any, choices: tuple[str, ...]) -> str | None:
    """Return the choice that `value` names; plain true and false mean the first two."""
    if isinstance(value, str):
        word = _plain(value).replace("_", " ")
        for choice in choices:
            if word == choice.replace("_", " "):
                return choice
    verdict = read_verdict(value)
    return None if verdict is None else choices[0 if verdict else 1]
