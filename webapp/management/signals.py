"""Ctrl-C and SIGTERM for commands that run until stopped."""

from __future__ import annotations

import signal
import threading


def stop_on_signals() -> threading.Event:
    """Set by the first SIGINT or SIGTERM; the second one ends the process."""
    stop = threading.Event()

    def handle(number: int, _: object) -> None:
        if stop.is_set():
            signal.signal(number, signal.SIG_DFL)
        stop.set()

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, handle)
    return stop
