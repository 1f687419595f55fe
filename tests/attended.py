"""Histories beside other tests: MariaDB 11.4.5 itself crashes now and then in UPDATEs of partitioned tables
(ha_partition::position).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait

from testing.workload.runner import Played, Player
from webapp.embedded.mariadb import EmbeddedMariaDB


def play(player: Player, server: EmbeddedMariaDB) -> tuple[Played, int]:
    """What was played, and how often the server died of itself: it is started again, for the tests that come after,
    too.
    """
    died = 0
    with ThreadPoolExecutor(1) as pool:
        playing = pool.submit(player.play)
        while not wait([playing], timeout=0.2).done:
            if not server.running:
                died += 1
                server.restart()  # by this thread, with which it ends
    return playing.result(), died
