"""A process with all imports done that forks a worker for each order: a restart costs a tenth of a second.

Commands on stdin, answers on stdout, a JSON object a line: {"order": …} → {"pid": …}.  Single-threaded, because it
forks.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

import django


def main() -> None:
    """Until stdin ends."""
    django.setup()
    from tests.crash import worker_life

    worker_life.warm()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # dead children leave no zombies
    gc.freeze()
    _answer({"ready": True})
    for line in sys.stdin:
        pid = os.fork()
        if pid:
            _answer({"pid": pid})
            continue
        _child(json.loads(line)["order"])


def _child(order: dict[str, Any]) -> None:
    """Never returns."""
    from tests.crash import worker_life

    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(0)
    os.open(os.devnull, os.O_RDONLY)
    code = 1
    try:
        Path(order["result"]).write_text(worker_life.live(order))
        code = 0
    except BaseException:  # noqa: BLE001 - the last frame of a forked process
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _answer(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
