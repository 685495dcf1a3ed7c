"""Listening on ports or Unix sockets, and the required token."""

from __future__ import annotations

import os
import secrets
import socket
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragmeter.metrics import ConfigurationError

from ._access import TOKEN_VARIABLE, VIEW_TOKEN_VARIABLE

if TYPE_CHECKING:
    from ragmeter.adapters.opentelemetry.otlp import Signal

    from ._endpoint import Endpoint
    from ._tls import Certificate
    from .options import ServeOptions


def address_of(options: ServeOptions, port: int) -> str:
    """Return the address of a port."""
    host = f"[{options.host}]" if ":" in options.host else options.host
    return f"{'http' if options.tls_cert is None else 'https'}://{host}:{port}"


def page_address(options: ServeOptions, port: int) -> str | None:
    """Return the address of the page for people, or None if there is none or it is unknown."""
    from ragmeter.settings.config import read_settings  # noqa: PLC0415 -- the page is there before it

    is_unknown = options.uds is not None or options.host in ("0.0.0.0", "::")  # noqa: S104
    page = options.page or read_settings().page_url
    if page is not None or options.store is None or is_unknown:
        return page
    return address_of(options, port)


def token_of(options: ServeOptions, *, looks: bool = False) -> tuple[str, bool]:
    """Return the required token ("" for none), and whether it may be printed: one from a file, only once.

    Args:
        options: The server's options.
        looks: Whether to return the viewers' token.

    Raises:
        ConfigurationError: The file of the token cannot be used, or other users can read it.
    """
    path, said, variable, option = (
        (options.view_token_file, options.view_token, VIEW_TOKEN_VARIABLE, "--view-token-file")
        if looks
        else (options.token_file, options.token, TOKEN_VARIABLE, "--token-file")
    )
    if said is not None or path is None:
        given = os.environ.get(variable, "") if said is None else said
        return given.strip(), True
    is_new = False
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            private = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(private, "w", encoding="utf-8") as file:
                file.write(secrets.token_urlsafe(24) + "\n")
            is_new = True
        with path.open(encoding="utf-8") as file:
            about = os.fstat(file.fileno())
            token = file.read(4096).strip()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{option} {path} cannot be used ({_why(error)})") from None
    if os.name == "posix" and (about.st_mode & 0o077 or about.st_uid != os.getuid()):
        raise ConfigurationError(f"{option} {path} is another user's, or others may read it: chmod 600 {path}")
    if not token:
        raise ConfigurationError(f"{option} {path} is empty: delete it, and one is made")
    return token, is_new


def bind(options: ServeOptions) -> socket.socket:
    """Return a listening socket for HTTP.

    Raises:
        ConfigurationError: The port or the path is in use.
    """
    if options.uds is not None:
        return _bound_to_file(options.uds)
    host, port = options.host, options.http_port
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        both = host == "::" and socket.has_dualstack_ipv6()  # every address, as gRPC takes it
        return socket.create_server((host, port), family=family, dualstack_ipv6=both)
    except (OSError, OverflowError) as error:
        raise ConfigurationError(
            f"cannot listen on {host}:{port} ({_why(error)}): choose another --http-port, or --host"
        ) from None


def bind_grpc(server: Any, options: ServeOptions, certificate: Certificate | None = None) -> int:
    """Bind a gRPC server; return its port, or 0 with a Unix socket.

    Raises:
        ConfigurationError: The port or the path is in use.
    """
    if options.uds is not None:
        path = grpc_path(options.uds)
        _make_room(path)
        where = f"unix:{path.absolute()}"
    else:
        host = f"[{options.host}]" if ":" in options.host else options.host
        where = f"{host}:{options.grpc_port}"
    found = 0
    with suppress(RuntimeError), _private():
        if certificate is None:
            found = server.add_insecure_port(where)
        else:
            found = server.add_secure_port(where, certificate.of_grpc())
    if not found:
        raise ConfigurationError(
            f"cannot listen on {where} for gRPC (it may be taken): choose another --grpc-port, or --host"
        )
    return 0 if options.uds is not None else int(found)


def grpc_path(path: Path) -> Path:
    """Return the path of the gRPC socket, next to the HTTP socket."""
    return path.with_name(path.name + ".grpc")


def forget_paths(options: ServeOptions) -> None:
    """Delete the files of the Unix sockets."""
    if options.uds is not None:
        for path in (options.uds, grpc_path(options.uds)):
            path.unlink(missing_ok=True)


def _bound_to_file(path: Path) -> socket.socket:
    if not hasattr(socket, "AF_UNIX"):
        raise ConfigurationError("--uds: this system has no Unix sockets; use --token-file")
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make_room(path)
        with _private():
            made.bind(str(path))
        made.listen()
    except ConfigurationError:
        made.close()
        raise
    except (OSError, ValueError) as error:
        made.close()
        raise ConfigurationError(
            f"cannot listen on --uds {path} ({_why(error)}): choose another path, of 100 characters at most"
        ) from None
    return made


def _make_room(path: Path) -> None:
    """Delete the socket left by a killed server; keep any other file, and a socket in use."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ConfigurationError(f"--uds {path} is a file, and no socket: choose another path")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except OSError:
            pass
    raise ConfigurationError(f"another server listens on --uds {path}: choose another path")


@contextmanager
def _private() -> Iterator[None]:
    """Create files that only this user can access, within the block."""
    before = os.umask(0o177)
    try:
        yield
    finally:
        os.umask(before)


def _why(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


def refuse_own_address(
    forwarded: Mapping[Signal, Endpoint], sent: Mapping[str, Endpoint], host: str, ports: Sequence[int]
) -> None:
    """Raise ConfigurationError if spans or scores would be sent to the server itself."""
    places = [("what is passed on", to) for to in forwarded.values()]
    places += [(f"the {signal} of scores", to) for signal, to in sent.items()]
    for what, endpoint in places:
        if _is_own(endpoint.address, host, ports):
            raise ConfigurationError(
                f"{what} would be sent to {endpoint.shown}, where this server listens itself: set "
                "OTEL_EXPORTER_OTLP_ENDPOINT (or --otlp URL) to the backend, or --http-port and "
                "--grpc-port to others"
            )


def _is_own(address: tuple[str, int], host: str, ports: Sequence[int]) -> bool:
    name, port = address
    if port not in ports:
        return False
    everywhere = host in ("0.0.0.0", "::", "")  # noqa: S104 -- compared with, not bound to
    mine = _addresses(host)
    theirs = _addresses(name)
    return bool(mine & theirs) or (everywhere and any(map(_is_local, theirs)))


def _addresses(host: str) -> set[str]:
    try:
        return {str(found[4][0]) for found in socket.getaddrinfo(host, None)}
    except OSError:
        return set()


def _is_local(address: str) -> bool:
    """Return whether an address belongs to this machine, as only such an address can be bound to."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True
