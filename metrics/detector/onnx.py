"""`OnnxSpanDetector`: a token classifier in a user's file, run in this process without a framework.

Encoders of the LettuceDetect kind read question and chunks as the first text and the answer as the second,
and return for each token of the answer the probability that it is unsupported.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ragmeter.metrics.errors import ConfigurationError, MissingDependencyError

from .detector import DetectionRequest, SpanDetector, UnsupportedSpan

PROMPT = (
    "Briefly answer the following question:\n{question}\nBear in mind that your response should be strictly "
    "based on the following {count} passages:\n{passages}\nIn case the passages do not contain the necessary "
    "information to answer the question, please reply with: "
    '"Unable to answer based on given passages."\noutput:'
)
"""The first text, in the form of public detectors trained on RAGTruth's questions; other models need another
one."""


class OnnxSpanDetector(SpanDetector):
    """A token classifier in an ONNX file. Needs the extra ``detector`` (onnxruntime, tokenizers).

    Args:
        model: Path of the ``.onnx`` file, or of the folder that has it as ``model.onnx``. Inputs
            ``input_ids``, and ``attention_mask`` and ``token_type_ids`` if the model has them; one output of
            shape (batch, tokens, labels).
        tokenizer: Path of its ``tokenizer.json``; None: beside the model.
        name: The model's name; None: the name of its folder or file.
        prompt: The first text, with ``{question}``, ``{passages}`` and ``{count}``.
        unsupported_label: Number of the label that means *not supported*.
        at_least: Probability from which a token is part of a span, above 0.0 to 1.0.
        max_tokens: Tokens the model reads; of longer requests the end of the chunks is cut, never the answer.
        options: As in `SpanDetector`.

    Raises:
        MissingDependencyError: The extra is not installed.
        ConfigurationError: A file is missing or is not a model, or a number is out of range.
    """

    def __init__(
        self,
        model: str | Path,
        tokenizer: str | Path | None = None,
        name: str | None = None,
        *,
        prompt: str = PROMPT,
        unsupported_label: int = 1,
        at_least: float = 0.5,
        max_tokens: int = 4096,
        **options: Any,
    ) -> None:
        model = Path(model, "model.onnx") if Path(model).is_dir() else Path(model)
        tokenizer = model.with_name("tokenizer.json") if tokenizer is None else tokenizer
        for what, path in (("model", model), ("tokenizer", tokenizer)):
            if not Path(path).is_file():
                raise ConfigurationError(f"{what} is {str(path)!r}, where no file is; pass its path")
        if not 0.0 < at_least <= 1.0:
            raise ConfigurationError(f"at_least is {at_least!r}; pass a number above 0.0, at most 1.0")
        if max_tokens < 16:
            raise ConfigurationError(f"max_tokens is {max_tokens!r}; pass 16 or more")
        path = Path(model)
        folder = path.parent.name if path.stem == "model" else path.stem
        super().__init__(name or folder, **options)
        self._settings = {
            "model": str(model), "tokenizer": str(tokenizer), "name": self.name, "prompt": prompt,
            "unsupported_label": unsupported_label, "at_least": at_least, "max_tokens": max_tokens,
            **options,
        }  # fmt: skip
        self._session, self._tokenizer = _load(path, Path(tokenizer), max_tokens)
        self._prompt, self._label, self._at_least = prompt, unsupported_label, at_least

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments: the model is loaded again."""
        return partial(OnnxSpanDetector, **self._settings), ()

    async def detect(self, requests: Sequence[DetectionRequest]) -> Sequence[Any]:
        """Run the model on a thread, without blocking the event loop."""
        found: Sequence[Any] = await self._on_thread(partial(self._all, list(requests)))
        return found

    def _all(self, requests: Sequence[DetectionRequest]) -> list[list[UnsupportedSpan]]:
        encoded = self._tokenizer.encode_batch([(self._first(one), one.answer) for one in requests])
        inputs = {
            "input_ids": [one.ids for one in encoded],
            "attention_mask": [one.attention_mask for one in encoded],
            "token_type_ids": [one.type_ids for one in encoded],
        }
        import numpy as np  # noqa: PLC0415 -- comes with onnxruntime

        wanted = {one.name for one in self._session.get_inputs()}
        fed = {name: np.asarray(value, np.int64) for name, value in inputs.items() if name in wanted}
        (logits, *_) = self._session.run(None, fed)
        return [
            self._spans(one, [float(value) for value in _probabilities(rows, self._label)])
            for one, rows in zip(encoded, logits, strict=True)
        ]

    def _first(self, one: DetectionRequest) -> str:
        passages = "\n".join(f"passage {n}: {text}" for n, text in enumerate(one.contexts, 1))
        # Not `format`: a text may have braces.
        made = self._prompt.replace("{count}", str(len(one.contexts)))
        question, _, rest = made.partition("{question}")
        return question + (one.question + rest.replace("{passages}", passages) if rest else "")

    def _spans(self, encoded: Any, probabilities: Sequence[float]) -> list[UnsupportedSpan]:
        """Join neighbouring unsupported tokens; a span has the largest probability of its tokens."""
        spans: list[UnsupportedSpan] = []
        is_open = False
        for place, (start, end) in enumerate(encoded.offsets):
            if encoded.sequence_ids[place] != 1 or start == end:
                continue
            probability = min(1.0, max(0.0, probabilities[place]))
            if probability < self._at_least:
                is_open = False
                continue
            if is_open:
                last = spans.pop()
                spans.append(UnsupportedSpan(last.start, end, max(last.probability, probability)))
            else:
                spans.append(UnsupportedSpan(start, end, probability))
            is_open = True
        return spans


def _load(model: Path, tokenizer: Path, max_tokens: int) -> tuple[Any, Any]:
    try:
        import onnxruntime  # noqa: PLC0415  # pyright: ignore[reportMissingImports]  -- optional
        import tokenizers  # noqa: PLC0415  # pyright: ignore[reportMissingImports]  -- optional
    except ImportError as error:
        raise MissingDependencyError(error.name or "onnxruntime", "detector", "OnnxSpanDetector") from None
    try:
        is_tokenizer = "model" in json.loads(tokenizer.read_text("utf-8"))
    except (ValueError, TypeError):
        is_tokenizer = False
    if not is_tokenizer:  # the library would raise a bare Exception
        raise ConfigurationError(f"{tokenizer} is no tokenizer.json; pass the one of the model")
    library: Any = onnxruntime
    errors = library.capi.onnxruntime_pybind11_state
    try:
        session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    except (errors.Fail, errors.InvalidArgument, errors.InvalidGraph, errors.InvalidProtobuf) as error:
        raise ConfigurationError(
            f"{model} cannot be read ({type(error).__name__}): pass a token classifier in ONNX's format"
        ) from None
    read = tokenizers.Tokenizer.from_file(str(tokenizer))
    read.enable_truncation(max_tokens, strategy="only_first")
    read.enable_padding()
    return session, read


def _probabilities(rows: Any, label: int) -> Any:
    """Yield the label's probability of each token: softmax over the labels, or one label's logistic."""
    for row in rows:
        if len(row) == 1:
            yield 1.0 / (1.0 + math.exp(-float(row[0])))
            continue
        largest = float(max(row))
        powers = [math.exp(float(value) - largest) for value in row]
        yield powers[label] / sum(powers)
