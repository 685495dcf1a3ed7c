"""The commands under ``ragmeter queue`` and their options. `app` adds them to the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, TypeAlias

import typer

from ragmeter.cli._console import Console, say
from ragmeter.cli._ending import EXIT_FAILED, exit_with_line, print_json

queue = typer.Typer(help="Maintain the queue of requests that workers score.", no_args_is_help=True)
_dead = typer.Typer(
    help="Requests that could not be scored: list, replay or delete them.", no_args_is_help=True
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
    int, typer.Argument(min=1, metavar="N", help="Number of messages, the oldest first.")
]


@queue.command()
def declare(
    url: UrlOption = None,
    max_bytes: Annotated[
        int, typer.Option(min=1_000_000, help="Most compressed bytes that may wait; likewise for dead letters.")
    ] = 1_000_000_000,
    dead_days: Annotated[float, typer.Option(min=0.01, help="Days to store dead letters.")] = 7.0,
    as_json: JsonOption = False,
) -> None:
    """Create missing queues. Publishers and workers do so as well, if they have the right to.

    Exit code 1: a queue exists with other bounds (it is left unchanged), or cannot be reached.
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
    """Show the number of waiting and dead messages, and of connected workers.

    Exit code 1: the queue does not exist or cannot be reached.
    """
    with _reachable_queue():
        from .run import print_status, queue_at

        found = queue_at(url).status()
        if as_json:
            print_json(asdict(found))
        else:
            print_status(found, Console())


@_dead.command("list")
def list_letters(
    url: UrlOption = None,
    limit: Annotated[int, typer.Option(min=1, help="Number of letters, the oldest first.")] = 20,
    with_text: Annotated[
        bool, typer.Option("--with-text", help="Also show questions, chunks and answers.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List dead letters: age, number of deaths, service, requests and reason.

    They stay in the queue.
    """
    with _reachable_queue():
        from .run import letters, print_letters, queue_at

        found = letters(queue_at(url), limit, with_text=with_text)
        if as_json:
            print_json(found)
        else:
            print_letters(found, Console())


@_dead.command()
def replay(count: CountArgument, url: UrlOption = None, as_json: JsonOption = False) -> None:
    """Queue the N oldest dead letters again, e.g. once newer workers run."""
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
