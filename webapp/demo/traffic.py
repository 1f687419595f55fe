"""Customers of the demo shop: inserts, updates and deletes in small transactions, until told to stop."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pymysql
from pymysql.cursors import Cursor

from webapp.demo import shop

PAUSE_SECONDS = 0.15


class Traffic(threading.Thread):
    """About seven transactions a second; a source that is away for a while is tried again."""

    def __init__(self, connect: Callable[[], Any], seed: int | None = None) -> None:
        """`connect` gives a connection to the shop's database, without autocommit."""
        super().__init__(name="demo traffic", daemon=True)
        self._connect = connect
        self._chance = random.Random(seed)  # noqa: S311 - not for secrecy
        self._over = threading.Event()

    def stop(self) -> None:
        """Returns when the last transaction has ended."""
        self._over.set()
        self.join(timeout=10)

    def run(self) -> None:
        """Until `stop`."""
        while not self._over.is_set():
            try:
                with self._connect() as connection:
                    self._serve(connection)
            except pymysql.MySQLError:
                self._over.wait(1.0)

    def _serve(self, connection: Any) -> None:
        deeds = (self._order, self._order, self._advance, self._advance, self._restock, self._join_up, self._cancel)
        while not self._over.wait(PAUSE_SECONDS * self._chance.uniform(0.3, 1.7)):
            with connection.cursor() as cursor:
                self._chance.choice(deeds)(cursor)
            connection.commit()

    def _order(self, cursor: Cursor) -> None:
        """One transaction over four tables."""
        now = _now()
        customer = self._chance.randint(1, shop.CUSTOMERS)
        cursor.execute(
            "INSERT INTO orders (customer_id, state, total, placed_at) VALUES (%s, 'new', 0, %s)", (customer, now)
        )
        order = int(cursor.lastrowid)
        lines = shop.items(order, self._chance)
        cursor.executemany("INSERT INTO order_items VALUES (%s, %s, %s, %s, %s)", lines)
        total = sum(line[3] * line[4] for line in lines)
        cursor.execute("UPDATE orders SET total = %s WHERE id = %s", (total, order))
        for _, _, sku, quantity, _ in lines:
            cursor.execute(
                "UPDATE inventory SET on_hand = on_hand - %s WHERE warehouse = 1 AND sku = %s", (quantity, sku)
            )
        self._log(cursor, f"customer {customer}", f"placed order {order}")

    def _advance(self, cursor: Cursor) -> None:
        states = (
            "ELT(FIELD(state, 'new', 'paid', 'packed', 'shipped') + 1, state, 'paid', 'packed', 'shipped', 'delivered')"
        )
        cursor.execute(f"UPDATE orders SET state = {states} ORDER BY RAND() LIMIT 3")

    def _restock(self, cursor: Cursor) -> None:
        sku = shop.sku(self._chance.randrange(shop.PRODUCTS))
        cursor.execute("UPDATE inventory SET on_hand = on_hand + 50 WHERE sku = %s", (sku,))
        cursor.execute("UPDATE products SET price = price * %s WHERE sku = %s", (self._chance.uniform(0.95, 1.05), sku))

    def _join_up(self, cursor: Cursor) -> None:
        number = self._chance.randrange(10**9)
        cursor.execute(
            "INSERT IGNORE INTO customers (email, name, loyalty, born) VALUES (%s, %s, %s, %s)",
            shop.person(number, self._chance),
        )
        self._log(cursor, "web", "a customer joined")

    def _cancel(self, cursor: Cursor) -> None:
        """A delete with its lines."""
        cursor.execute("SELECT id FROM orders WHERE state IN ('cancelled', 'delivered') ORDER BY id LIMIT 1")
        found = cursor.fetchone()
        if found:
            cursor.execute("DELETE FROM order_items WHERE order_id = %s", found)
            cursor.execute("DELETE FROM orders WHERE id = %s", found)
            self._log(cursor, "clerk", f"removed order {found[0]}")
        cursor.execute("DELETE FROM audit_log WHERE at < NOW() - INTERVAL 1 DAY LIMIT 100")

    def _log(self, cursor: Cursor, actor: str, what: str) -> None:
        cursor.execute("INSERT INTO audit_log VALUES (%s, %s, %s)", (_now(), actor, what))


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
