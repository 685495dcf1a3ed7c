"""The terminal of every command: rich's, protected from control characters in printed data."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.text import Text

from ragmeter.metrics._display.printing import visible_text


class Console(RichConsole):
    """rich's console, with the same arguments."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the output, with a visible sign in place of each invisible character."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control or text.isprintable() else Segment(visible_text(text), style)

    def print_line(self, text: str, style: str = "") -> None:
        """Print a line verbatim: no markup, no wrapping."""
        self.print(Text(text, style), soft_wrap=True)

    def print_indented(self, shown: RenderableType, style: str = "", *, by: int = 2) -> None:
        """Print something `by` columns from the left; a text verbatim, without markup."""
        self.print(Padding(Text(shown, style) if isinstance(shown, str) else shown, (0, 0, 0, by)))


def say(text: str, style: str = "") -> None:
    """Print a line on the error stream, as `Console.print_line` does."""
    Console(stderr=True).print_line(text, style)
