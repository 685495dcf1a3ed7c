"""The command ``ragmeter run``: finds or starts the page, prints its address, and becomes the program."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from ragmeter.cli._console import Console
from ragmeter.cli._docstring_options import options_from_docstring
from ragmeter.cli._ending import exit_with_line
from ragmeter.cli.program import become_program, program_command
from ragmeter.metrics import ConfigurationError

from .plan import PLAN, Plan

_BEGIN = "ragmeter.cli.run.inside:begin"


@options_from_docstring
def run(
    program: str,
    arguments: Annotated[list[str] | None, typer.Argument()] = None,
    phoenix: str | None = None,
    otlp: str | None = None,
    module: bool = False,
) -> None:
    """Run a program unchanged, and score its RAG requests: LangChain and LlamaIndex, no code needed.

    Prints each verdict on standard error, and where to look: the page of ragmeter serve on this machine,
    which is started if it does not run, unless --phoenix or --otlp says otherwise. Ends as the program ends.

    Args:
        program: A Python file, module:function, or a command such as uvicorn.
        arguments: What the program is given, options included.
        phoenix (URL): Show the requests in this Phoenix.
        otlp (URL): Send them to this OTLP endpoint.
        module (-m): The program is a module, as of python -m.
    """
    errors = Console(stderr=True, markup=False, highlight=False, soft_wrap=True)
    with exit_with_line():
        if phoenix is not None and otlp is not None:
            raise ConfigurationError("--phoenix and --otlp: choose one of them")
        if phoenix is not None and not urlsplit(phoenix).hostname:
            raise ConfigurationError(
                f"--phoenix {phoenix!r} is not a URL; write for example http://localhost:6006"
            )
        command = program_command(program, arguments or (), is_module=module)
        name = program.partition(":")[0]
        named = Path(name).stem if Path(name).exists() else Path(name).name
        environment: dict[str, str] = {}
        if phoenix is not None:
            plan = Plan(os.getpid(), named, "phoenix", phoenix)
            environment = {"PHOENIX_COLLECTOR_ENDPOINT": phoenix}
        elif otlp is not None:
            from ragmeter.cli._otlp import choose_protocol  # noqa: PLC0415 -- brings the SDK

            plan = Plan(os.getpid(), named, "otlp", otlp, choose_protocol(otlp, None))
        else:
            from .page import page_on_this_machine  # noqa: PLC0415 -- needs the extra of the server

            page = page_on_this_machine()
            plan = Plan(os.getpid(), named, "page", page.url)
            if page.started is not None:
                errors.print(f"ragmeter run: the page runs on; to end it: kill {page.started}")
        errors.print(f"ragmeter run: look at {plan.url}")
        become_program(command, _BEGIN, {**environment, PLAN: json.dumps(plan)})
