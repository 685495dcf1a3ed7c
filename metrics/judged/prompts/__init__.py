"""The judge's prompts, one Markdown file each, and their loader.

``rules.md`` is added before every prompt. A prompt's version is a hash of both texts, so no wording can
change without changing the definition that is published with the scores. Data only: delimiters around texts
are up to the judge.
"""

from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files

__all__ = ["PromptFile", "load_prompt"]


@dataclass(frozen=True, slots=True)
class PromptFile:
    """The content of a prompt file."""

    name: str
    """File name without ``.md``."""
    rules: str
    """The rules common to all prompts; ``{marker}`` stands for the request's delimiter."""
    task: str
    """The question, and the form of the reply; ``{tag}`` stands for the beginning of the request's ids."""
    version: str
    """First 8 hex digits of the SHA-256 of both texts."""


@lru_cache(maxsize=64)
def load_prompt(name: str) -> PromptFile:
    """Read the prompt `name`.

    Raises:
        FileNotFoundError: Unknown prompt.
    """
    folder = files(__name__)
    rules = (folder / "rules.md").read_text(encoding="utf-8").strip()
    task = (folder / f"{name}.md").read_text(encoding="utf-8").strip()
    version = sha256(f"{rules}\n\n{task}".encode()).hexdigest()[:8]
    return PromptFile(name=name, rules=rules, task=task, version=version)
