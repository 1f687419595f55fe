"""The shop's schema and first rows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from pymysql.cursors import Cursor

DATABASE = "shop"
CUSTOMERS, PRODUCTS, ORDERS = 2_000, 300, 5_000
FIRST = (
    "Ada",
    "Bjørn",
    "Chloé",
    "Dmitri",
    "Elif",
    "Femi",
    "Gül",
    "Hana",
    "Íris",
    "Jōji",
    "Kwame",
    "Lucía",
    "Mei",
    "Noor",
)
LAST = (
    "Andersson",
    "Brandt",
    "Çelik",
    "Dubois",
    "Eze",
    "Fischer",
    "García",
    "Haas",
    "Ito",
    "Jansen",
    "Kowalski",
    "Łuczak",
)
THINGS = ("Lamp", "Chair", "Kettle", "Notebook", "Backpack", "Bicycle bell", "Rug", "Teapot", "Clock", "Blanket")
COLOURS = ("red", "blue", "green", "walnut", "linen", "black", "white")
STATES = ("new", "paid", "packed", "shipped", "delivered", "cancelled")

SCHEMA = (
    """CREATE TABLE customers (
      id BIGINT UNSIGNED PRIMARY KEY AUTO_INCREMENT, email VARCHAR(120) NOT NULL UNIQUE, name VARCHAR(120) NOT NULL,
      loyalty ENUM('none', 'silver', 'gold') NOT NULL DEFAULT 'none', born DATE NULL, notes TEXT NULL,
      created_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3))""",
    """CREATE TABLE products (
      sku CHAR(10) PRIMARY KEY, title VARCHAR(200) NOT NULL, price DECIMAL(10, 2) NOT NULL, attributes JSON NULL,
      picture VARBINARY(64) NULL, active BOOLEAN NOT NULL DEFAULT TRUE)""",
    """CREATE TABLE inventory (
      warehouse SMALLINT UNSIGNED NOT NULL, sku CHAR(10) NOT NULL, on_hand INT NOT NULL, PRIMARY KEY (warehouse, sku))""",
    """CREATE TABLE orders (
      id BIGINT UNSIGNED PRIMARY KEY AUTO_INCREMENT, customer_id BIGINT UNSIGNED NOT NULL, state VARCHAR(12) NOT NULL,
      total DECIMAL(12, 2) NOT NULL, placed_at DATETIME(6) NOT NULL, KEY (customer_id))""",
    """CREATE TABLE order_items (
      order_id BIGINT UNSIGNED NOT NULL, line SMALLINT UNSIGNED NOT NULL, sku CHAR(10) NOT NULL, quantity INT NOT NULL,
      price DECIMAL(10, 2) NOT NULL, PRIMARY KEY (order_id, line))""",
    "CREATE TABLE audit_log (at DATETIME(3) NOT NULL, actor VARCHAR(60) NOT NULL, what VARCHAR(200) NOT NULL)",
)


def seed(cursor: Cursor, chance: random.Random) -> bool:
    """Make the database with its rows; False where it is there already."""
    cursor.execute("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = %s", (DATABASE,))
    (tables,) = cursor.fetchone() or (0,)
    if tables >= len(SCHEMA):
        return False
    cursor.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
    cursor.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
    cursor.execute(f"USE {DATABASE}")
    for statement in SCHEMA:
        cursor.execute(statement)
    for table, columns, rows in _rows(chance):
        marks = ", ".join(["%s"] * (columns.count(",") + 1))
        cursor.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", list(rows))
    return True


def person(number: int, chance: random.Random) -> tuple[Any, ...]:
    """email, name, loyalty, born."""
    name = f"{chance.choice(FIRST)} {chance.choice(LAST)}"
    born = datetime(1950, 1, 1, tzinfo=UTC).date() + timedelta(days=chance.randrange(20_000))
    return f"customer{number}@example.com", name, chance.choice(("none", "none", "silver", "gold")), born


def sku(number: int) -> str:
    """Article number."""
    return f"TM-{number:06d}"


def items(order: int, chance: random.Random) -> list[tuple[Any, ...]]:
    """One to four lines of an order."""
    return [
        (order, line, sku(chance.randrange(PRODUCTS)), chance.randint(1, 5), round(chance.uniform(3, 250), 2))
        for line in range(1, chance.randint(1, 4) + 1)
    ]


def _rows(chance: random.Random) -> Iterator[tuple[str, str, Iterator[tuple[Any, ...]]]]:
    yield "customers", "email, name, loyalty, born", (person(number, chance) for number in range(CUSTOMERS))
    yield (
        "products",
        "sku, title, price, attributes",
        (
            (
                sku(n),
                f"{chance.choice(THINGS)}, {chance.choice(COLOURS)}",
                round(chance.uniform(3, 250), 2),
                f'{{"size": {n % 7}}}',
            )
            for n in range(PRODUCTS)
        ),
    )
    yield (
        "inventory",
        "warehouse, sku, on_hand",
        ((warehouse, sku(n), chance.randrange(500)) for warehouse in (1, 2, 3) for n in range(PRODUCTS)),
    )
    now = datetime.now(UTC).replace(tzinfo=None)
    yield (
        "orders",
        "id, customer_id, state, total, placed_at",
        (
            (
                n,
                chance.randint(1, CUSTOMERS),
                chance.choice(STATES),
                round(chance.uniform(5, 900), 2),
                now - timedelta(minutes=n),
            )
            for n in range(1, ORDERS + 1)
        ),
    )
    yield (
        "order_items",
        "order_id, line, sku, quantity, price",
        (item for order in range(1, ORDERS + 1) for item in items(order, chance)),
    )
    yield (
        "audit_log",
        "at, actor, what",
        ((now - timedelta(seconds=n), "import", f"order {n} imported") for n in range(500)),
    )
