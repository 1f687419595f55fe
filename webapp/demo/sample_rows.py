"""Sample rows of the shops, the same for every server."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

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
Rows = Iterator[tuple[Any, ...]]


def person(number: int, chance: random.Random) -> tuple[Any, ...]:
    """email, name, loyalty, born."""
    name = f"{chance.choice(FIRST)} {chance.choice(LAST)}"
    born = datetime(1950, 1, 1, tzinfo=UTC).date() + timedelta(days=chance.randrange(20_000))
    return f"customer{number}@example.com", name, chance.choice(("none", "none", "silver", "gold")), born


def sku(number: int) -> str:
    """Article number."""
    return f"TM-{number:06d}"


def product(number: int, chance: random.Random) -> tuple[Any, ...]:
    """sku, title, price, attributes."""
    title = f"{chance.choice(THINGS)}, {chance.choice(COLOURS)}"
    return sku(number), title, round(chance.uniform(3, 250), 2), f'{{"size": {number % 7}}}'


def items(order: int, chance: random.Random) -> list[tuple[Any, ...]]:
    """One to four lines of an order: order, line, sku, quantity, price."""
    return [
        (order, line, sku(chance.randrange(PRODUCTS)), chance.randint(1, 5), round(chance.uniform(3, 250), 2))
        for line in range(1, chance.randint(1, 4) + 1)
    ]


def first_rows(chance: random.Random) -> Iterator[tuple[str, str, Rows]]:
    """table, columns, rows; the same for the same `chance`, but for the time of day.  Times are UTC."""
    now = datetime.now(UTC)
    yield "customers", "email, name, loyalty, born", (person(n, chance) for n in range(CUSTOMERS))
    yield "products", "sku, title, price, attributes", (product(n, chance) for n in range(PRODUCTS))
    stock = ((warehouse, sku(n), chance.randrange(500)) for warehouse in (1, 2, 3) for n in range(PRODUCTS))
    yield "inventory", "warehouse, sku, on_hand", stock
    orders = ((*order(chance), now - timedelta(minutes=n)) for n in range(1, ORDERS + 1))
    yield "orders", "customer_id, state, total, placed_at", orders
    bought = (item for number in range(1, ORDERS + 1) for item in items(number, chance))
    yield "order_items", "order_id, line, sku, quantity, price", bought
    log = ((now - timedelta(seconds=n), "import", f"order {n} imported") for n in range(500))
    yield "audit_log", "at, actor, what", log


def order(chance: random.Random) -> tuple[Any, ...]:
    """customer_id, state, total."""
    return chance.randint(1, CUSTOMERS), chance.choice(STATES), round(chance.uniform(5, 900), 2)
