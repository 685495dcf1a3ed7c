"""A token classifier in ONNX's format, a few hundred bytes, written without a package: it looks each token up.

The graph is one Gather: input_ids → rows of a table of logits, one row a word of the vocabulary.
"""

import struct


def _varint(number):
    out = b""
    while True:
        number, low = number >> 7, number & 0x7F
        out += bytes([low | (0x80 if number else 0)])
        if not number:
            return out


def _whole(field, number):
    return _varint(field << 3) + _varint(number)


def _bytes(field, value):
    value = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _tensor_input(name, element, dimensions):
    shape = b"".join(_bytes(1, _bytes(2, one)) for one in dimensions)
    return _bytes(1, name) + _bytes(2, _bytes(1, _whole(1, element) + _bytes(2, shape)))


def lookup_model(logits):
    """Return the model's bytes: `logits` has a row for each word, a column for each label."""
    table = (
        b"".join(_whole(1, size) for size in (len(logits), len(logits[0])))
        + _whole(2, 1)  # float
        + _bytes(8, "table")
        + _bytes(9, struct.pack(f"<{len(logits) * len(logits[0])}f", *(x for row in logits for x in row)))
    )
    node = _bytes(1, "table") + _bytes(1, "input_ids") + _bytes(2, "logits") + _bytes(4, "Gather")
    graph = (
        _bytes(1, node)
        + _bytes(2, "lookup")
        + _bytes(5, table)
        + _bytes(11, _tensor_input("input_ids", 7, ("batch", "tokens")))
        + _bytes(12, _tensor_input("logits", 1, ("batch", "tokens", "labels")))
    )
    return _whole(1, 8) + _bytes(7, graph) + _bytes(8, _whole(2, 13))
