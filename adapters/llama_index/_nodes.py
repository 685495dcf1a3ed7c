"""Copies of LlamaIndex nodes, taken on the request's path and turned into contexts on the worker.

LlamaIndex and its plug-ins overwrite nodes in place all the time: fusion and rerankers the
score, the sentence window the text.  So a node is copied at the moment it is seen.
Writing its text as the model sees it (metadata above the text, by the node's templates) costs ten times
the copy, so for ordinary text nodes that waits for the worker and is done there by
LlamaIndex's own code, on a stand-in that holds the copied fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any, Literal, NamedTuple

from ragmeter.adapters._snapshots import ContextSnapshot, as_score, to_contexts
from ragmeter.metrics import RetrievedContext

__all__ = [
    "NodeSnapshot",
    "TextMode",
    "describe_tools",
    "node_ids",
    "snapshot_nodes",
    "text_in_prompts",
    "to_node_contexts",
]

TextMode = Literal["llm", "none"]
"""``llm``: text as in ``node.get_content(MetadataMode.LLM)``; ``none``: the bare text."""

_SCHEMA = "llama_index.core.schema"


class NodeSnapshot(NamedTuple):
    """One node as it was when seen."""

    text: str
    """The bare text; when `stand_in` is None, the final text."""
    id: str | None
    """The node's id."""
    score: float | None
    """The score it carried at that time."""
    metadata: Mapping[str, Any]
    """A shallow copy of its metadata."""
    stand_in: tuple[type, dict[str, Any]] | None = None
    """The node's class and fields, for the text that the model saw."""


def _formats_plainly(cls: type) -> bool:
    """Tell whether nodes of `cls` are formatted by LlamaIndex's own text node, not by an override."""
    content = getattr(cls, "get_content", None)
    metadata = getattr(cls, "get_metadata_str", None)
    return (
        getattr(content, "__module__", None) == _SCHEMA
        and getattr(content, "__qualname__", None) == "TextNode.get_content"
        and getattr(metadata, "__module__", None) == _SCHEMA
    )


_plain: dict[type, bool] = {}
_MAX_CLASSES = 1_000


def snapshot_nodes(nodes: Iterable[Any], mode: TextMode) -> tuple[NodeSnapshot, ...]:
    """Copy `nodes` (nodes with a score, or bare nodes). About half a microsecond each."""
    return tuple([_snapshot(item, mode) for item in nodes])


def _snapshot(item: Any, mode: TextMode) -> NodeSnapshot:
    node = getattr(item, "node", item)
    cls = type(node)
    plain = _plain.get(cls)
    if plain is None:
        if len(_plain) >= _MAX_CLASSES:
            _plain.clear()
        plain = _plain[cls] = _formats_plainly(cls)
    score = getattr(item, "score", None)
    if plain:
        # One copy of the fields, and the rest is read from it: this runs for every node of a request.
        fields = node.__dict__.copy()
        text, metadata = fields["text"], fields["metadata"]
        if type(text) is str and type(metadata) is dict:
            number = score if type(score) is float and -inf < score < inf else as_score(score)
            if mode == "none" or not metadata:
                return NodeSnapshot(text, fields["id_"], number, {**metadata})
            fields["metadata"] = metadata = metadata.copy()
            fields["embedding"] = None  # large, and no part of the text
            return NodeSnapshot(text, fields["id_"], number, metadata, (cls, fields))
    return NodeSnapshot(
        *ContextSnapshot.take(
            _content(node, mode),
            getattr(node, "node_id", None),
            score,
            getattr(node, "metadata", None),
        )
    )


def _content(node: Any, mode: TextMode) -> object:
    content = getattr(node, "get_content", None)
    if content is None:
        return node
    return content(_metadata_mode(mode))


def _metadata_mode(mode: TextMode) -> Any:
    from llama_index.core.schema import MetadataMode  # noqa: PLC0415 -- only with LlamaIndex

    return MetadataMode.LLM if mode == "llm" else MetadataMode.NONE


def describe_tools(nodes: Sequence[NodeSnapshot]) -> bool:
    """Tell whether all of `nodes` describe tools: an agent or router that chooses among its tools.

    LlamaIndex keeps a tool in an object index as a text that begins with its name, and the name as
    the only metadata.
    """
    return bool(nodes) and all(
        item.metadata.keys() == {"name"} and item.text.startswith("Tool name: ") for item in nodes
    )


def node_ids(nodes: Iterable[Any]) -> frozenset[str]:
    """Return the ids of `nodes`."""
    return frozenset(str(getattr(item, "node_id", "")) for item in nodes)


def to_node_contexts(snapshots: Iterable[NodeSnapshot]) -> tuple[RetrievedContext, ...]:
    """Turn snapshots into contexts; done on the worker."""
    return to_contexts(map(_final, snapshots))


def text_in_prompts(snapshot: NodeSnapshot) -> str:
    """Return the text by which a node is looked for in a prompt; done on the worker.

    The bare text, whatever the template put above it; of a node without one, its metadata.
    """
    return snapshot.text if snapshot.text.strip() else _final(snapshot).text


def _final(snapshot: NodeSnapshot) -> ContextSnapshot:
    context = ContextSnapshot(*snapshot[:4])
    if snapshot.stand_in is None:
        return context
    cls, fields = snapshot.stand_in
    node: Any = object.__new__(cls)
    object.__setattr__(node, "__dict__", fields)
    return context._replace(text=str(_content(node, "llm")))
