"""Starting servers for tests, and checking where they really listen."""

import ipaddress
import socket
import subprocess
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from waiting import until as wait_until

LISTENING = "0A"


def free_port():
    """Return a port of 127.0.0.1 that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def running(command, log: Path, ready_url, *, timeout_s, env=None):
    """Run `command` until the block ends; enter it when `ready_url` answers 200."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=env)
    try:
        wait_until(
            lambda: process.poll() is not None or answers(ready_url), timeout_s, f"{command[0]} is not ready"
        )
        if process.poll() is not None:
            raise RuntimeError(f"{command[0]} ended:\n{log.read_text(errors='replace')[-4000:]}")
        yield process
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answers(url):
    """Return whether a GET of `url` is answered with 200."""
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return reply.status == 200
    except (OSError, urllib.error.URLError):
        return False


def listening_addresses(pid):
    """Return (address, port) of every TCP socket on which a process listens, in its own network (Linux)."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            link = str(descriptor.readlink())
        except OSError:
            continue
        if link.startswith("socket:["):
            inodes.add(link[8:-1])
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and fields[9] in inodes:
                host, port = fields[1].split(":")
                # The kernel writes addresses as 32-bit words in host order.
                packed = b"".join(bytes.fromhex(host[i : i + 8])[::-1] for i in range(0, len(host), 8))
                address = ipaddress.ip_address(packed)
                found.append((getattr(address, "ipv4_mapped", None) or address, int(port, 16)))
    return found


def descendants(pid):
    """Return the ids of a process's children, and of theirs (Linux)."""
    children = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, open_ = [], [pid]
    while open_:
        mine = children.get(open_.pop(), [])
        found += mine
        open_ += mine
    return found
