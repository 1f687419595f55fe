"""What the demo's shops have in common: a server, a schema with its first rows, and what customers and clerks do."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Protocol

from webapp.demo.sample_rows import CUSTOMERS, ORDERS, PRODUCTS, Rows, first_rows, items, person, sku

DATABASE = "shop"
SEED = 7
NEXT = {"new": "paid", "paid": "packed", "packed": "shipped", "shipped": "delivered"}
Deed = Callable[[Any], None]


class ShopServer(Protocol):
    """An embedded server."""

    port: int

    def start(self) -> None:
        """Goes on with its data."""

    def stop(self) -> None:
        """Clean."""


class Shop(ABC):
    """One shop on its own embedded server.

    A deed is one transaction; cursors are those of the server's driver.
    """

    source: ClassVar[str]  # of the command line; names the server's folder and port
    product: ClassVar[str]
    name: ClassVar[str]  # of the connection and of the replicator
    kind: ClassVar[str]  # of the connection
    namespace_prefix: ClassVar[str] = ""
    schema: ClassVar[tuple[str, ...]]
    error: ClassVar[type[Exception]]  # the driver's

    def __init__(self, folder: Path, port: int) -> None:
        """`folder`: of the server."""
        self.server: ShopServer = self._server(folder, port)
        self.chance = random.Random()  # noqa: S311 - not for secrecy

    # What differs

    @abstractmethod
    def _server(self, folder: Path, port: int) -> ShopServer: ...

    @property
    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Of the connection."""

    @abstractmethod
    def connect(self) -> Any:
        """A DB-API connection to the shop, times in UTC, without autocommit."""

    @abstractmethod
    def create(self) -> None:
        """An empty database or schema in place of one that is incomplete."""

    @abstractmethod
    def insert(self, cursor: Any, table: str, columns: str, rows: Rows) -> None:
        """Many rows in few statements."""

    # What does not

    def seed(self) -> bool:
        """Make the tables, and their rows in one transaction; False where they are there already."""
        if self._complete():
            return False
        self.create()
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            for statement in self.schema:
                cursor.execute(statement)
            for table, columns, rows in first_rows(random.Random(SEED)):  # noqa: S311
                self.insert(cursor, table, columns, rows)
            self.embellish(cursor)
            connection.commit()
        return True

    def _complete(self) -> bool:
        try:
            with closing(self.connect()) as connection, connection.cursor() as cursor:
                cursor.execute("SELECT 1 FROM orders LIMIT 1")
                return cursor.fetchone() is not None
        except self.error:
            return False

    def embellish(self, cursor: Any) -> None:  # noqa: B027 - nothing, where there is nothing more
        """More first rows, where the server has more to show."""

    def deeds(self) -> tuple[Deed, ...]:
        """What traffic chooses from; one that stands here twice comes twice as often."""
        return self.place, self.place, self.advance, self.advance, self.restock, self.join_up, self.cancel

    def place(self, cursor: Any) -> None:
        """An order: one transaction over four tables."""
        customer = self.chance.randint(1, CUSTOMERS)
        cursor.execute(
            "INSERT INTO orders (customer_id, state, total, placed_at) VALUES (%s, 'new', 0, %s) RETURNING id",
            (customer, now()),
        )
        (order,) = cursor.fetchone()
        lines = items(order, self.chance)
        self.insert(cursor, "order_items", "order_id, line, sku, quantity, price", iter(lines))
        total = sum(line[3] * line[4] for line in lines)
        cursor.execute("UPDATE orders SET total = %s WHERE id = %s", (total, order))
        for _, _, article, quantity, _ in lines:
            cursor.execute(
                "UPDATE inventory SET on_hand = on_hand - %s WHERE warehouse = 1 AND sku = %s", (quantity, article)
            )
        self.note(cursor, f"customer {customer}", f"placed order {order}")

    def advance(self, cursor: Any) -> None:
        """A few orders go one step on."""
        start = self.chance.randint(1, ORDERS)
        cursor.execute(
            "SELECT id, state FROM orders WHERE id >= %s AND state NOT IN ('delivered', 'cancelled') ORDER BY id"
            " LIMIT 3",
            (start,),
        )
        for order, state in cursor.fetchall():
            cursor.execute("UPDATE orders SET state = %s WHERE id = %s", (NEXT[state], order))

    def restock(self, cursor: Any) -> None:
        """In all warehouses, at a new price."""
        article = self._article()
        cursor.execute("UPDATE inventory SET on_hand = on_hand + 50 WHERE sku = %s", (article,))
        cursor.execute(
            "UPDATE products SET price = price * %s WHERE sku = %s", (self.chance.uniform(0.95, 1.05), article)
        )

    def join_up(self, cursor: Any) -> None:
        """A new customer."""
        someone = person(self.chance.randrange(10**12), self.chance)
        cursor.execute("INSERT INTO customers (email, name, loyalty, born) VALUES (%s, %s, %s, %s)", someone)
        self.note(cursor, "web", "a customer joined")

    def cancel(self, cursor: Any) -> None:
        """A delete with its lines."""
        cursor.execute("SELECT id FROM orders WHERE state IN ('cancelled', 'delivered') ORDER BY id LIMIT 1")
        if found := cursor.fetchone():
            cursor.execute("DELETE FROM order_items WHERE order_id = %s", found)
            cursor.execute("DELETE FROM orders WHERE id = %s", found)
            self.note(cursor, "clerk", f"removed order {found[0]}")
        cursor.execute("DELETE FROM audit_log WHERE at < NOW() - INTERVAL '1' DAY")

    def note(self, cursor: Any, actor: str, what: str) -> None:
        """A line of the log without a key."""
        cursor.execute("INSERT INTO audit_log VALUES (%s, %s, %s)", (now(), actor, what))

    def _article(self) -> str:
        return sku(self.chance.randrange(PRODUCTS))


def now() -> datetime:
    """UTC; MariaDB's driver leaves the zone out."""
    return datetime.now(UTC)
