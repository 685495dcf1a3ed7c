"""The messages in a prompt that a model's chat template has written out as one text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from .fields import ROLES
from .step import Message

_TURN = re.compile(
    r"<\|(?:start_header_id|im_start)\|>[ \t]*(\w+)(?:<\|end_header_id\|>)?|<start_of_turn>[ \t]*(\w+)|"
    r"<\|(system|user|assistant|human)\|>|(\[/?INST\])"
)
_SIGNS = ("<|", "<start_of_turn>", "INST]")
_TOKEN = re.compile(r"<\|\w+\|>|<(?:bos|eos|end_of_turn)>|</?s>|<</?SYS>>")
_INSTRUCTION = {"[INST]": "user", "[/INST]": "assistant", "model": "assistant"}


def written_out(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return the messages of a conversation, with those that one text consists of apart."""
    return tuple(turn for message in messages for turn in _turns_in(message))


def _turns_in(message: Message) -> Iterator[Message]:
    shown = message.role in ("user", "") and any(sign in message.text for sign in _SIGNS)
    turns = list(_TURN.finditer(message.text)) if shown else []
    if not turns or _TOKEN.sub("", message.text[: turns[0].start()]).strip():
        yield message
        return
    ends = [*(turn.start() for turn in turns[1:]), len(message.text)]
    for turn, end in zip(turns, ends, strict=True):
        role = next(filter(None, turn.groups()))
        text = _TOKEN.sub("", message.text[turn.end() : end]).strip()
        if text:
            yield Message(_INSTRUCTION.get(role) or ROLES.get(role, role), text)
