"""The commands under ``ragmeter queue`` and their options. `app` adds them to the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, TypeAlias

import typer

from ragmeter.cli._console import Console, say
from ragmeter.cli._ending import EXIT_FAILED, exit_with_line, print_json

__all__ = ["queue"]

queue = typer.Typer(
    help="Look after the queue of requests that are scored outside the application.",
    no_args_is_help=True,
)
_dead = typer.Typer(
    help="What could not be scored: look at it, send it again, delete it.", no_args_is_help=True
)
queue.add_typer(_dead, name="dead")

UrlOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--queue",
        metavar="URL",
        envvar="RAGMETER_QUEUE_URL",
        help="amqp(s)://user:password@host/vhost or spool:///dir. The variable keeps a password out of `ps`.",
    ),
]
JsonOption: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON and nothing else.")
]
CountArgument: TypeAlias = Annotated[
    int, typer.Argument(min=1, metavar="N", help="How many messages, the oldest first.")
]


@queue.command()
def declare(
    url: UrlOption = None,
    max_bytes: Annotated[
        int,
        typer.Option(min=1_000_000, help="What may wait, compressed; likewise for dead letters."),
    ] = 1_000_000_000,
    dead_days: Annotated[
        float, typer.Option(min=0.01, help="Days that dead letters are kept.")
    ] = 7.0,
    as_json: JsonOption = False,
) -> None:
    """Make the queues, if they are not there. Publishers and workers do so as well, where they may.

    Exit code 1: a queue is there already with other bounds (it is left as it is), or cannot be reached.
    """
    with _reachable_queue():
        from .run import queue_at

        differing = queue_at(url).declare(max_bytes=max_bytes, dead_ttl_s=dead_days * 86_400)
    if as_json:
        print_json({"differing": differing})
    for name in () if as_json else differing:
        say(
            f"ragmeter: {name} is there with other bounds and stays as it is; delete it while it is empty "
            "to declare it again",
            "yellow",
        )
    if differing:
        raise typer.Exit(EXIT_FAILED)
    if not as_json:
        Console().print("the queues are there")


@queue.command()
def status(url: UrlOption = None, as_json: JsonOption = False) -> None:
    """Say how much waits, how much is dead, and how many workers are connected.

    Exit code 1: the queue is not there or cannot be reached.
    """
    with _reachable_queue():
        from ._report import print_status, status_as_json
        from .run import queue_at

        found = queue_at(url).status()
        if as_json:
            print_json(status_as_json(found))
        else:
            print_status(found, Console())


@_dead.command("list")
def list_letters(
    url: UrlOption = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, the oldest first.")] = 20,
    with_text: Annotated[
        bool, typer.Option("--with-text", help="Show what was asked, found and answered, too.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List dead letters: for how long, after how many deaths, of which service, which requests, why.

    They stay where they are.
    """
    with _reachable_queue():
        from ._report import letters_as_json, print_letters
        from .run import letters, queue_at

        found = letters(queue_at(url), limit, with_text=with_text)
        if as_json:
            print_json(letters_as_json(found))
        else:
            print_letters(found, Console())


@_dead.command()
def replay(count: CountArgument, url: UrlOption = None, as_json: JsonOption = False) -> None:
    """Send the N oldest dead letters to be scored again, e.g. once workers that can read them run."""
    with _reachable_queue():
        from .run import queue_at

        done = queue_at(url).replay(count)
    _tell("replayed", done, as_json=as_json)


@_dead.command()
def drop(count: CountArgument, url: UrlOption = None, as_json: JsonOption = False) -> None:
    """Delete the N oldest dead letters."""
    with _reachable_queue():
        from .run import queue_at

        done = queue_at(url).drop(count)
    _tell("dropped", done, as_json=as_json)


def _tell(what: str, done: int, *, as_json: bool) -> None:
    if as_json:
        print_json({what: done})
    else:
        Console().print(f"{done} messages {what}")


@contextmanager
def _reachable_queue() -> Iterator[None]:
    """Exit with code 1 and one line if the queue cannot be reached."""
    with exit_with_line():
        from ragmeter.fleet.transport import TransportDownError

        try:
            yield
        except TransportDownError as error:
            say(f"ragmeter: {error}", "red")
            raise typer.Exit(EXIT_FAILED) from None
