"""What is known of immutable files, kept while there is room."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

Value = TypeVar("Value")
BYTES = 256 * 1024 * 1024


class FileCache:
    """Least recently used first out; at most `limit` bytes.  Thread-safe."""

    def __init__(self, limit: int = BYTES) -> None:
        """Empty."""
        self.limit = limit
        self.used = 0
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Value], size: Callable[[Value], int]) -> Value:
        """What is kept under `key`, else made now; two threads may make it at the same time."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                found: Value = self._kept[key][0]
                return found
        made = make()
        self.put(key, made, size(made))
        return made

    def known(self, key: Hashable) -> Any:
        """None where nothing is kept."""
        with self._lock:
            return self._kept.get(key, (None, 0))[0]

    def forget(self, keys: Iterable[Hashable]) -> None:
        """Remove what is no longer needed."""
        with self._lock:
            for key in keys:
                self.used -= self._kept.pop(key, (None, 0))[1]

    def put(self, key: Hashable, value: object, size: int) -> None:
        """Keep it; others are removed where there is no room.  What alone is larger than all the room is not kept."""
        with self._lock:
            self.used -= self._kept.pop(key, (None, 0))[1]
            if size > self.limit:
                return
            self._kept[key] = (value, size)
            self.used += size
            while self.used > self.limit:
                self.used -= self._kept.popitem(last=False)[1][1]


MEMORY = FileCache()
