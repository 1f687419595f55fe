"""Traffic of a shop's customers and clerks: its deeds one after the other, until stopped."""

from __future__ import annotations

import threading
from contextlib import closing

from webapp.demo.shop import Shop

PAUSE_SECONDS = 0.15


class Traffic(threading.Thread):
    """About seven transactions a second; a source that is away for a while is tried again."""

    def __init__(self, shop: Shop) -> None:
        """The thread opens its own connections."""
        super().__init__(name=f"traffic of {shop.name}", daemon=True)
        self._shop = shop
        self._over = threading.Event()

    def stop(self) -> None:
        """Returns when the last transaction has ended."""
        self._over.set()
        self.join(timeout=10)

    def run(self) -> None:
        """Until `stop`."""
        while not self._over.is_set():
            try:
                self._serve()
            except self._shop.error:
                self._over.wait(1.0)

    def _serve(self) -> None:
        chance, deeds = self._shop.chance, self._shop.deeds()
        with closing(self._shop.connect()) as connection:
            while not self._over.wait(PAUSE_SECONDS * chance.uniform(0.3, 1.7)):
                with connection.cursor() as cursor:
                    chance.choice(deeds)(cursor)
                connection.commit()
