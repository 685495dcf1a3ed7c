"""Score rows in parallel with Ray Data and return tables of scores.

It only moves data: picklable functions read and score. Without a cluster (``RAY_ADDRESS``) it starts a
temporary Ray: on the loopback address, without a dashboard or usage reports; at the end of the block, or if
its process is killed, no process is left running.
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

ADDRESS = "RAY_ADDRESS"
"""Ray's variable with the cluster to use; without it one is started."""
ROWS = 256
"""Most rows per call of a process."""
_PREFIX = "rm-ray-"
STORE_BYTES = 256 * 1024 * 1024
"""Memory of a started Ray for rows in transit."""
DEATHS = 3
"""Retries of rows whose process died; then the run ends."""

Read = Callable[[], Iterator[Any]]
"""Yields Arrow tables of rows, a few hundred each."""
Score = Callable[[Any], Any]
"""Returns an Arrow table of scores for a table of rows."""


@contextmanager
def cluster(processes: int) -> Iterator[int]:
    """Use Ray's cluster, or start one for the block.

    Yields the number of CPUs it lacks for these processes and a reader: Ray waits until the cluster has grown.

    Args:
        processes: Number of scoring processes, for which a started Ray gets room.

    Raises:
        ConfigurationError: There is no cluster at the address, or Ray does not start.
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
        # Keeps Ray on the loopback address, on Linux, too.
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
                    num_cpus=3 * processes + 1,  # slots: without spare ones Ray Data waits forever
                    num_gpus=0,
                    include_dashboard=False,
                    object_store_memory=STORE_BYTES,
                    _node_ip_address="127.0.0.1",
                    _temp_dir=str(folder.path),
                    **quiet,
                )
            except Exception as error:  # Ray raises `Exception` itself
                raise ConfigurationError(
                    f"Ray did not start ({str(error).partition('. ')[0]}); ask for fewer processes, or "
                    "score without Ray"
                ) from error
        with redirect_stdout(sys.stderr):  # Ray prints the death of processes
            yield max(0, processes + 1 - int(ray.cluster_resources().get("CPU", 0)))
    finally:
        ray.shutdown()
        if folder is not None:
            folder.remove()


class _Folder:
    """The folder of a started Ray, readable by its owner only, as spilled data has texts.

    A killed process leaves its folder behind; the next one removes it.
    """

    def __init__(self) -> None:
        place = Path(tempfile.gettempdir())
        for left in place.glob(f"{_PREFIX}*"):
            with suppress(OSError):
                if left.is_dir() and left.lstat().st_uid == os.getuid() and is_gone(place, left.name):
                    shutil.rmtree(left, ignore_errors=True)
                    (place / f"{left.name}{LOCK}").unlink(missing_ok=True)
        name = f"{_PREFIX}{secrets.token_hex(4)}"
        self._lock = ProcessLock(place, name)  # taken before another process can find the folder
        self.path = place / name
        self.path.mkdir(mode=0o700)

    def remove(self) -> None:
        """Remove the folder with its contents."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.release()


def score_tables(
    pieces: Sequence[Read], build: Callable[[], Score], *, processes: int, rows: int = ROWS
) -> Iterator[Any]:
    """Yield tables of scores in no particular order; inside `cluster`.

    Each of `pieces` reads rows in its own process; `build` makes the scorer, once in each scoring process.

    Raises:
        ConfigurationError: Rows failed after `DEATHS` retries because their process died, or reading or
            building failed; the message names the class of the error.
    """
    ray = _ray()
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # Ray's log quotes rows
    there = ray.put(list(pieces))
    with warnings.catch_warnings():
        # Ray has no other way to limit restarts; without a limit, rows that kill their process would be
        # retried and paid for forever.
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
    """A scoring process, which makes its scorer once."""

    def __init__(self, build: Callable[[], Score]) -> None:
        self._score = build()

    def __call__(self, rows: Any) -> Any:
        return self._score(rows)


def _safe_words(error: BaseException) -> str:
    """Return a safe description of a failure: our own message, else its class, as its text may quote a row."""
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
