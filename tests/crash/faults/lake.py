"""What has the copies of all histories, where it is not the installation's own lake; and the trouble that it makes."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from replicator.verification import CatalogConfig, DeltaConfig
from tests.crash.faults.store import S3Store

EVERY_SECONDS = (1.0, 5.0)


class Lake:
    """Workers come through what makes trouble; readers do not.

    kind: of the destination; settings: of the destination, as workers have it; folder: where its files are on the disk.
    """

    kind: str
    settings: Mapping[str, str]
    folder: Path

    def __init__(self, breaking: threading.Lock, store: S3Store | None) -> None:
        """`breaking`: held while nothing may be broken.  store: None for a folder."""
        self.made: Counter[str] = Counter()
        self.store = store
        self.over = threading.Event()
        self._breaking = breaking
        self._quiet = 0

    def start(self) -> None:
        if self.store is not None:
            self.store.start()

    def stop(self) -> None:
        self.over.set()
        with self._breaking:
            self._stop()
            if self.store is not None:
                self.store.stop()

    def reader(self) -> CatalogConfig | DeltaConfig:
        """As readers open it."""
        raise NotImplementedError

    def trouble(self) -> None:
        """Until `stop`.  In the thread that has started the servers, which end with it."""
        chance = random.Random()
        while not self.over.wait(chance.uniform(*EVERY_SECONDS)):
            troubles = self._troubles(chance)
            if self.store is not None:
                troubles |= self.store.troubles(chance)
            if not troubles:
                return
            what = chance.choice(list(troubles))
            with self._breaking:
                if not self.over.is_set() and not self._quiet:
                    self.made[what] += 1
                    troubles[what]()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """No trouble inside the block: a history comes to its end."""
        with self._breaking:
            self._quiet += 1
            self._calm()
        try:
            yield
        finally:
            with self._breaking:
                self._quiet -= 1

    def _troubles(self, chance: random.Random) -> dict[str, Callable[[], object]]:
        """By what they are called."""
        del chance
        return {}

    def _calm(self) -> None:
        """What was to happen does not."""

    def _stop(self) -> None:
        """Its servers, the store's apart."""
