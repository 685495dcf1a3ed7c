"""Classifies failed attempts: error class, a safe message, and whether a retry may help.

Used inside judge and embedder only.  Classes come from the server's words, by rules that hold for every server
and never from a list of vendors: statuses alone mislead, since 400 may mean a refused text, a text that is too
long, or an unknown option.  Only the server's own words are read: an error may repeat the request or the
model's failed reply, so that a user's text could name an option or a filter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ragmeter.metrics._process.retry import asked_pause_s

_LONGEST_ASKED_S = 3600.0
_STATUS_TYPES = {
    401: "authentication",
    403: "permission",
    404: "not_found",
    408: "timeout",
    413: "request_too_large",
    429: "rate_limited",
}
_FATAL = frozenset({"authentication", "permission", "not_found", "quota", "redirected"})
_RETRIED = frozenset({408, 409, 425, 429})
_OPTIONS = frozenset({400, 415, 422, 501})
"""Statuses of endpoints that lack a sent option."""
_CODE = re.compile(r"(?=.*[a-z])[a-z0-9_.-]{1,40}")

_CERTAIN_FILTER = re.compile(
    r"content_?filter|content[ _]?policy[ _]?violation|responsible ?ai|data_?inspection"
)
"""Names of content filters, which indicate one with any status."""
_TEXT_REFUSED = re.compile(
    r"content[ _-](?:management|filter|policy|moderation)|content exists risk|inappropriate content"
    r"|high risk|usage (?:guideline|polic)|safety[_ ](?:check|system|filter|reason|polic)"
    r"|\bmoderat|guardrail|prohibited[ _]content|unsafe|harmful|jailbreak"
    r"|\b(?:input|content|prompt|text|request|message)s?\b.{0,60}\bflagged\b|\bflagged (?:as|by|for)\b"
    r"|(?<!case[ -])\bsensitive\b|violat\w* .{0,30}(?:polic|guideline|terms)"
    r"|敏感|违规|不安全|审核不|модерац|неприемлем"
)
_TOO_LONG = re.compile(
    r"context.{0,30}(?:length|size|window|limit|exceed)|exceed.{0,60}context"
    r"|(?:prompt|input|message|request|text)s?\b.{0,20}too (?:long|large|big)"
    r"|too (?:long|many tokens)|reduce the length|tokens.{0,30} must be <=|string_above_max_length"
    r"|range of input length|超长|слишком длин"
)
_TOO_MANY_TOKENS = re.compile(
    r"(?:input|prompt|number of)\b.{0,20}tokens?.{0,40}(?:exceed|at most|no more than|maximum|limit)"
    r"|токен.{0,40}превыш|превыш.{0,40}токен|超过.{0,20}(?:长度|token)"
)
_NO_MONEY = re.compile(
    r"insufficient[_ ](?:quota|balance|credit|fund)|credit balance|credits? (?:exhausted|depleted)"
    r"|out of credit|no credits|used all available credits|billing[_ ]hard[_ ]limit"
    r"|spending limit|exceeded_current_quota|余额不足|欠费|недостаточно средств"
)
_WRONG_KEY = re.compile(
    r"(?:invalid|incorrect|wrong|expired|missing|no)[ _]api[ _-]?key"
    r"|api[ _-]?key[ _](?:not valid|is not valid|invalid|is invalid|expired|not found|is missing)"
    r"|недействительный (?:ключ|api)|неверный (?:ключ|api)|密钥无效|无效的(?:令牌|密钥|api)"
)
_NO_JSON_MADE = re.compile(r"json_validate_failed|failed to (?:generate|validate) json")
_NO_SUCH_MODEL = re.compile(
    r"invalid model\b|unknown model\b|no such model|model_not_found|not a valid model"
    r"|\bmodel\b.{0,120}(?:does not exist|doesn't exist|not found)|模型不存在|модель не найдена"
)
_NO_ROUTE = re.compile(r"requested parameters")
"""A gateway without a provider for the request."""

_SYSTEM = (
    r"system (?:role|prompt|message|instruction)s?\b|roles must alternate"
    r"|(?:got|role|unexpected|invalid|unknown|unsupported)[^a-z]{0,12}system\b"
    r"|developer instruction|only user and assistant"
)
_OPTION_NAMES = {
    "temperature": (r"\btemperature\b", r""),
    "cap": (r"", r"max_?(?:completion_?|output_?|new_?)?tokens\b"),
    "effort": (r"\beffort\b", r"reasoning[_. ]effort"),
    "system": (r"", _SYSTEM),
    "format": (
        r"structured|schema|grammar|json mode|response format",
        r"response_?format|json_?schema|json_?object|grammar error",
    ),
}
"""How an option is named: by an ambiguous word, and by an unambiguous name."""
_REFUSING = (
    r"support|allow|permit|forbid|unknown|unrecogni|unexpected|invalid|deprecat|available|must|should"
    r"|cannot|can't|missing|extra|remov|disabl|enabl|implement|out of range|only|field|parameter"
    r"|param\b|argument|option|不支持|无效|必须|仅|параметр|не поддерж|недопуст"
)
_PLAIN = {
    option: re.compile(rf"""["'`](?:{plain})["'`]|(?:{_REFUSING}).{{0,25}}(?:{plain})"""
                       rf"""|(?:{plain})['"`]?(?:\s*[:=]|.{{0,40}}(?:{_REFUSING}))""")
    for option, (plain, _) in _OPTION_NAMES.items() if plain
}  # fmt: skip
_LOOSE = {
    option: re.compile("|".join(part for part in names if part)) for option, names in _OPTION_NAMES.items()
}
_OWN = {option: re.compile(own) for option, (_, own) in _OPTION_NAMES.items() if own}

_SPEAKING = frozenset({
    "error", "errors", "message", "msg", "detail", "details", "param", "code", "type", "loc", "raw",
    "status", "innererror", "reason", "title", "error_code", "error_msg", "error_message",
    "error_type",
})  # fmt: skip
"""Keys of a server's error messages."""
_NAMING = frozenset({"param", "loc"})
"""Keys for the name of a wrong option."""
_CODES = frozenset({"code", "error_code"})
_KINDS = frozenset({"type", "status", "error_type", "reason"})

_DEEPEST = 20
"""Levels of a body to read; gateways nest errors."""
_MOST_BYTES = 65_536
"""Bytes of an error's body to read."""
_LONGEST = 2_000
"""Characters of one string to read."""
_WITHOUT_JSON = 500
"""Characters to read of a body that is not JSON."""
_MOST_OBJECTS = 20
"""Objects inside one string to read."""

_TAG = re.compile(r"<(?:style|script)\b.*?</(?:style|script)>|<[^>]*>", re.DOTALL)
_LONGEST_MESSAGE = 300
_QUOTATION = re.compile(
    r"""["'](?:failed_generation|flagged_input|input)["']\s*:.*"""
    r"""|\binput_value\s*=.*?(?=,\s*input_type|\n|$)""",
    re.DOTALL,
)
"""Where a message that is itself a dump of an error begins to quote."""
_DELAY = re.compile(r"(?:retry|try again)\D{0,12}?((?:\d+(?:\.\d+)?(?:ms|h|m|s))+)")


@dataclass(frozen=True, slots=True)
class OptionRefusal:
    """A refusal by an endpoint that may lack a sent option."""

    named: tuple[str, ...] = ()
    """Options it names: they are missing."""
    mentioned: tuple[str, ...] = ()
    """Options whose name it mentions: they may be missing."""


class FailedCall(Exception):  # noqa: N818 -- never leaves judge or embedder
    """One attempt failed.

    Attributes:
        error_type: Low-cardinality class.
        detail: ragmeter's message.
        status: The HTTP status, or None.
        retry: Whether another attempt may pass.
        retry_after_s: The pause that the endpoint requested.
        fatal: The endpoint will refuse every call.
        refusal: The endpoint may lack an option; another attempt without it may pass.
        held_back: Nothing was sent: the endpoint had asked for a pause.
        words: The message of the endpoint or network. They may repeat the request, and the key.
    """

    def __init__(
        self,
        error_type: str,
        detail: str,
        *,
        status: int | None = None,
        retry: bool = False,
        retry_after_s: float | None = None,
        refusal: OptionRefusal | None = None,
        held_back: bool = False,
        words: str = "",
    ) -> None:
        super().__init__(detail)
        self.error_type = error_type
        self.detail = detail
        self.status = status
        self.retry = retry
        self.retry_after_s = retry_after_s
        self.fatal = error_type in _FATAL
        self.refusal = refusal
        self.held_back = held_back
        self.words = words


def failed_reply(status: int, headers: Mapping[str, str], body: bytes, *, stated: bool = True) -> FailedCall:
    """Return the failure of a reply with an error status, by the beginning of its body.

    If the status is not `stated` it is a guess, and the body may have any meaning.
    """
    words = _server_words(body)
    retry_after_s = asked_pause_s(status, headers, words.delay, longest_s=_LONGEST_ASKED_S)
    kind = _kind(status if stated else None, words, retry_after_s)
    if kind is None:
        kind = _STATUS_TYPES.get(status, "server_error" if status >= 500 else "bad_request")
        retry = status in _RETRIED or (status >= 500 and status != 501)
        refusal = _refused_feature(status, words)
    else:
        retry, refusal = False, None
    # A code is a server's word; anything longer might be a key or a text.
    code = next((word for word in words.codes + words.kinds if _CODE.fullmatch(word)), None)
    return FailedCall(
        kind,
        f"it answered with status {status}" + (f" ({code})" if code else "") + _ADVICE.get(kind, ""),
        status=status,
        retry=retry,
        retry_after_s=retry_after_s,
        refusal=refusal,
        words=words.message,
    )


def _kind(status: int | None, words: _ErrorWords, retry_after_s: float | None) -> str | None:
    """Return the class by the server's words, tested in this order; None: the status decides."""

    def among(*statuses: int) -> bool:
        return status is None or status in statuses

    text = words.text
    if status is not None and 300 <= status < 400:
        return "redirected"
    if status == 498 or (status not in (401, 429) and _CERTAIN_FILTER.search(text)):
        return "refusal"
    refusable = status is None or (400 <= status < 500 and status not in (401, 429))
    if refusable and (_TEXT_REFUSED.search(text) or "1301" in words.codes):
        return "refusal"
    if among(400, 413, 422) and _is_too_long(text):
        return "request_too_large"
    if status == 402 or (among(400, 403, 429) and _no_money(words, retry_after_s)):
        return "quota"
    if among(400, 422) and _WRONG_KEY.search(text):
        return "authentication"
    if among(400, 422, 500) and _NO_JSON_MADE.search(text):
        return "unusable_reply"
    if among(400, 422) and _NO_SUCH_MODEL.search(text):
        return "not_found"
    return None


def _is_too_long(text: str) -> bool:
    plain = text.replace("`", "")
    # The length of the reply is another limit: then the cap is to be stepped down.
    in_tokens = not _OWN["cap"].search(plain) and _TOO_MANY_TOKENS.search(plain)
    return bool(_TOO_LONG.search(plain) or in_tokens)


def _no_money(words: _ErrorWords, retry_after_s: float | None) -> bool:
    # A quota that is renewed has a time, or an exhausted resource in the message.
    is_renewed = retry_after_s is not None or "resource_exhausted" in words.text
    is_used_up = "exceeded your current quota" in words.text and not is_renewed
    return is_used_up or _NO_MONEY.search(words.text) is not None


def _refused_feature(status: int, words: _ErrorWords) -> OptionRefusal | None:
    if status >= 500 and status != 501:
        return OptionRefusal(("format",)) if "format" in _named_options(words) else None
    if status == 404 and _NO_ROUTE.search(words.text):
        return OptionRefusal()
    if status not in _OPTIONS:
        return None
    named = _named_options(words)
    mentioned = tuple(o for o, name in _LOOSE.items() if o not in named and name.search(words.text))
    return OptionRefusal(named, mentioned)


def _named_options(words: _ErrorWords) -> tuple[str, ...]:
    """Return the named options; if the server points at one, only that."""
    pointed = [option for option, name in _LOOSE.items() if any(map(name.search, words.named))]
    in_text = [
        o for o in _OPTION_NAMES if any(o in names and names[o].search(words.text) for names in (_OWN, _PLAIN))
    ]
    return tuple(pointed or in_text)


_ADVICE = {
    "redirected": ", a redirect, which is not followed, as keys and texts would go elsewhere: pass "
    "the address it leads to as base_url=",
    "not_found": ": check the model's name, and base_url= (is /v1 missing at its end?)",
    "quota": ": the account has no credit left",
}


@dataclass(slots=True)
class _ErrorWords:
    """The words found in an error's body."""

    text: str = ""
    """The whole text in lower case."""
    message: str = ""
    """The same in its original case, shortened."""
    named: set[str] = field(default_factory=set)
    """Names at places where options are named, in lower case."""
    codes: list[str] = field(default_factory=list)
    """Codes, in lower case, outermost first."""
    kinds: list[str] = field(default_factory=list)
    """Types and statuses, likewise."""
    delay: str | None = None
    """The pause that the body requests, e.g. ``3s``."""


def _server_words(body: bytes) -> _ErrorWords:
    """Return the server's words in the `body` of an error."""
    text = body[:_MOST_BYTES].decode("utf-8-sig", "replace")
    words = _ErrorWords()
    said: list[str] = []
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        said.append(text[:_WITHOUT_JSON])
    else:
        if isinstance(value, str):
            said.append(value[:_WITHOUT_JSON])
        _listen(value, "", said, words, 0)
    words.text = "\n".join(said).casefold()
    message = " ".join(dict.fromkeys(_TAG.sub(" ", "\n".join(said)).split("\n")))
    words.message = " ".join(message.split())[:_LONGEST_MESSAGE]
    if words.delay is None:
        match = _DELAY.search(words.text)
        words.delay = match[1] if match else None
    return words


def _listen(value: Any, key: str, said: list[str], words: _ErrorWords, depth: int) -> None:
    if depth > _DEEPEST:
        return
    if isinstance(value, dict):
        for name, inner in value.items():
            place = name.casefold()
            if place == "metadata" and isinstance(inner, dict):
                _listen({"raw": inner.get("raw")}, key, said, words, depth + 1)
            elif place in _SPEAKING:
                _listen(inner, place, said, words, depth + 1)
            elif place == "retrydelay" and isinstance(inner, str):
                words.delay = inner[:20]
    elif isinstance(value, list):
        for inner in value[:_MOST_OBJECTS]:
            _listen(inner, key, said, words, depth + 1)
    elif isinstance(value, str) and key:
        _take(value[:_LONGEST], key, said, words, depth)
    elif key in _CODES and isinstance(value, int) and not isinstance(value, bool):
        words.codes.append(str(value))
        said.append(str(value))


def _take(text: str, key: str, said: list[str], words: _ErrorWords, depth: int) -> None:
    if key in _NAMING:
        words.named.add(text.casefold())
    elif key in _CODES:
        words.codes.append(text.casefold())
    elif key in _KINDS:
        words.kinds.append(text.casefold())
    said.append(_without_quotations(text, said, words, depth))


def _without_quotations(text: str, said: list[str], words: _ErrorWords, depth: int) -> str:
    """Return `text` without the objects in it, whose words are collected like any others."""
    kept: list[str] = []
    at = 0
    decoder = json.JSONDecoder()
    for _ in range(_MOST_OBJECTS):
        begin = min((p for p in (text.find("{", at), text.find("[", at)) if p >= 0), default=-1)
        if begin < 0:
            break
        try:
            value, end = decoder.raw_decode(text, begin)
        except (ValueError, RecursionError):
            kept.append(text[at : begin + 1])
            at = begin + 1
            continue
        kept.append(text[at:begin])
        at = end
        _listen(value, "", said, words, depth + 1)
    kept.append(text[at:])
    return _QUOTATION.sub("", "".join(kept))
