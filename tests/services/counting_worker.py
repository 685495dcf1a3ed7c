"""A worker whose requests are names: it writes one line for each call of the judge and for each export.

It processes a message like `BatchWorker`, without metrics: queue and engine are under test.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

from ragmeter.fleet._rabbitmq import run_worker
from ragmeter.fleet.transport import Dead, Disposition

sys.stdout.reconfigure(line_buffering=True)  # processes of the worker may end without flushing buffers


class Counting:
    def __init__(self):
        how = os.O_APPEND | os.O_CREAT | os.O_WRONLY
        self._exports = os.open(os.environ["EXPORTS"], how)
        self._calls = os.open(os.environ["CALLS"], how)

    def handle(self, body, deaths):
        try:
            batch = json.loads(body)
        except ValueError:
            return Disposition(dead=(Dead(body=body, reason="a newer version wrote it"),))
        ids = batch["ids"]
        if deaths >= 2 and len(ids) > 1:
            return Disposition(split=tuple(json.dumps({**batch, "ids": [one]}).encode() for one in ids))
        strange = ("unreadable",) if Path(os.environ["GATE"]).exists() else ("unreadable", "newer")
        readable = [one for one in ids if not one.startswith(strange)]
        dead = [json.dumps({"ids": [one]}).encode() for one in ids if one not in readable]
        self._write(self._calls, readable)
        if any(one.startswith("hanging") for one in ids):
            time.sleep(3600)
        if any(one.startswith("poison") for one in ids):
            os.kill(os.getpid(), signal.SIGKILL)
        while any(one.startswith("held") for one in ids) and not Path(os.environ["GATE"]).exists():
            time.sleep(0.01)
        if any(one.startswith("later") for one in ids) and not Path(os.environ["GATE"]).exists():
            return Disposition(done=False)
        if any(one.startswith("bug") for one in ids):
            raise ValueError("SECRET of a request")
        self._write(self._exports, readable)
        flag = os.environ.get("DIE_AFTER_EXPORT")
        if flag and Path(flag).exists():
            Path(flag).unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return Disposition(dead=tuple(Dead(body=one, reason="unreadable") for one in dead))

    def _write(self, file, ids):
        os.write(file, "".join(f"{one}\n" for one in ids).encode())

    def close(self, timeout_s):
        sys.stdout.write("closed\n")


if __name__ == "__main__":
    once = "--once" in sys.argv
    limit_s = float(os.environ["LIMIT_S"]) if "LIMIT_S" in os.environ else None
    ended = run_worker(
        os.environ["QUEUE_URL"], Counting, processes=int(sys.argv[1]), once=once, limit_s=limit_s
    )
    sys.stdout.write(f"ended {ended}\n")
