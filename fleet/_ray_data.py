"""Ray Data as the engine of an archive: takes rows to processes that score them, and brings tables back.

It moves bytes and knows no metric: what is read and what scores is handed in, as functions that can be
pickled.  Without a cluster (``RAY_ADDRESS``) it starts Ray for the time being: on the loopback address, without
a dashboard, telling nobody; when the block ends, or its process is killed, nothing of it is left running.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from ragmeter.metrics import ConfigurationError, MissingDependencyError

from ._process_lock import LOCK, ProcessLock, is_gone

__all__ = ["ADDRESS", "ROWS", "Read", "Score", "cluster", "score_tables"]

ADDRESS = "RAY_ADDRESS"
"""Ray's own variable: the cluster to use; without it one is started."""
ROWS = 256
"""Rows that a process is given at a time, at most."""
_PREFIX = "rm-ray-"
STORE_BYTES = 256 * 1024 * 1024
"""Memory of our own Ray for rows on their way."""
DEATHS = 3
"""Times that rows are given to a process again that died of them; then the run ends."""

Read = Callable[[], Iterator[Any]]
"""Yields Arrow tables of rows, a few hundred each."""
Score = Callable[[Any], Any]
"""Returns an Arrow table of scores for one of rows."""


@contextmanager
def cluster(processes: int) -> Iterator[int]:
    """Use Ray's cluster, or one of our own that lasts as long as the block.

    Yields how many CPUs it lacks for these processes and one that reads: Ray waits until it has grown.

    Args:
        processes: How many will score, for which our own is given room.

    Raises:
        ConfigurationError: There is no cluster at the address, or our own does not start.
        MissingDependencyError: Ray is not installed.
    """
    # Read by Ray when it is imported.
    os.environ |= {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "RAY_BACKEND_LOG_LEVEL": "fatal",
    }
    address = os.environ.get(ADDRESS)
    if not address:
        # On Linux, too, Ray keeps to the loopback address where several machines are excluded.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    try:
        ray = _ray()
    except ImportError:
        raise MissingDependencyError("ray", "ray", "--engine ray") from None
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    folder = None if address else _Folder()
    try:
        if folder is None:
            try:
                ray.init(address=address, **quiet)
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise ConfigurationError(f"{ADDRESS}: no cluster of Ray's answers there") from error
        else:
            try:
                ray.init(
                    address="local",
                    num_cpus=3 * processes + 1,  # places: with none to spare Ray Data waits forever
                    num_gpus=0,
                    include_dashboard=False,
                    object_store_memory=STORE_BYTES,
                    _node_ip_address="127.0.0.1",
                    _temp_dir=str(folder.path),
                    **quiet,
                )
            except Exception as error:  # Ray raises that very class
                raise ConfigurationError(
                    f"Ray did not start ({str(error).partition('. ')[0]}); ask for fewer processes, or "
                    "score without Ray"
                ) from error
        with redirect_stdout(sys.stderr):  # where Ray says that a process has died
            yield max(0, processes + 1 - int(ray.cluster_resources().get("CPU", 0)))
    finally:
        ray.shutdown()
        if folder is not None:
            folder.remove()


class _Folder:
    """What our own Ray writes into: what it spills holds texts, so only its owner may read it.

    A process that is killed leaves its folder behind; the next one that makes one removes it.
    """

    def __init__(self) -> None:
        place = Path(tempfile.gettempdir())
        for left in place.glob(f"{_PREFIX}*"):
            with suppress(OSError):
                if (
                    left.is_dir()
                    and left.lstat().st_uid == os.getuid()
                    and is_gone(place, left.name)
                ):
                    shutil.rmtree(left, ignore_errors=True)
                    (place / f"{left.name}{LOCK}").unlink(missing_ok=True)
        name = f"{_PREFIX}{secrets.token_hex(4)}"
        self._lock = ProcessLock(place, name)  # before there is a folder that somebody may find
        self.path = place / name
        self.path.mkdir(mode=0o700)

    def remove(self) -> None:
        """Remove it, with everything in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.release()


def score_tables(
    pieces: Sequence[Read], build: Callable[[], Score], *, processes: int, rows: int = ROWS
) -> Iterator[Any]:
    """Yield tables of scores as they come, in no order; inside `cluster`.

    Args:
        pieces: What is read, each in a process of its own.
        build: Makes what scores, once in each process that does.
        processes: How many score; at least 1.
        rows: How many rows a process is given at a time.

    Raises:
        ConfigurationError: Rows were given to a process `DEATHS` times more and it died each time, or nothing
            could be read or built there; the message says which class of error it was.
    """
    ray = _ray()
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # what it says quotes rows
    there = ray.put(list(pieces))
    with warnings.catch_warnings():
        # Ray has no other way to say how often a process is started again, and without limit rows that
        # kill theirs would be paid for forever.
        warnings.filterwarnings("ignore", "`ray_remote_args_fn` is deprecated")
        found = (
            ray.data.range(len(pieces), override_num_blocks=len(pieces))
            .map_batches(_read, batch_size=1, batch_format="pyarrow", fn_kwargs={"pieces": there})
            .repartition(target_num_rows_per_block=rows)
            .map_batches(
                _Scoring,
                fn_constructor_args=(build,),
                batch_size=rows,
                batch_format="pyarrow",
                compute=ray.data.ActorPoolStrategy(size=processes),
                ray_remote_args_fn=_limits,
            )
        )
    try:
        yield from found.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=1)
    except ray.exceptions.RayError as error:
        raise ConfigurationError(_safe_words(error)) from error


def _ray() -> Any:
    import_module("ray.data")
    return import_module("ray")


def _limits() -> dict[str, Any]:
    return {"max_restarts": DEATHS, "max_task_retries": DEATHS}


def _read(numbers: Any, pieces: Any) -> Iterator[Any]:
    there: Sequence[Read] = _ray().get(pieces)
    for number in numbers.column("id").to_pylist():
        yield from there[number]()


class _Scoring:
    """A process that scores: what scores is made once."""

    def __init__(self, build: Callable[[], Score]) -> None:
        self._score = build()

    def __call__(self, rows: Any) -> Any:
        return self._score(rows)


def _safe_words(error: BaseException) -> str:
    """Return what may be said of a failure: our own words, and else its class, as it may quote a row."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ConfigurationError):
            return str(cause)
        inner = getattr(cause, "cause", None)
        cause = inner if isinstance(inner, BaseException) else cause.__cause__
    return (
        f"--engine ray: {type(error).__name__}; what was scored before is kept, and the same command "
        "continues from there"
    )
