"""Call a function periodically, in its own thread, while a block runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LOOK_SECONDS = 0.5


@contextmanager
def periodically(look: Callable[[], None], *, name: str, released: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Call `look` every LOOK_SECONDS within the block, and `released` at the end, both in that thread."""
    over = threading.Event()

    def run() -> None:
        try:
            while not over.wait(LOOK_SECONDS):
                look()
        finally:
            released()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
