"""The demo's shops on their real servers: filled once, and every deed of their traffic works."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.environment import HOME
from webapp.demo.mariadb_shop import MariaDBShop
from webapp.demo.postgres_shop import PostgresShop
from webapp.demo.sample_rows import CUSTOMERS, ORDERS, PRODUCTS
from webapp.demo.shop import Shop
from webapp.embedded.ports import free_port

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module", params=[MariaDBShop, PostgresShop], ids=["mariadb", "postgres"])
def shop(request: Any) -> Iterator[Shop]:
    one: Shop = request.param(HOME / f"demo-{request.param.source}", free_port())
    one.server.start()
    yield one
    one.server.stop()


def rows(shop: Shop, query: str) -> list[Any]:
    with closing(shop.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


def test_first_rows_are_made_once(shop: Shop) -> None:
    assert shop.seed()
    counts = " UNION ALL ".join(f"SELECT COUNT(*) FROM {table}" for table in ("customers", "products", "orders"))
    assert [count for (count,) in rows(shop, counts)] == [CUSTOMERS, PRODUCTS, ORDERS]
    assert not shop.seed()


def test_an_interrupted_start_begins_again(shop: Shop) -> None:
    shop.seed()
    with closing(shop.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE orders")
        connection.commit()
    assert shop.seed()


def test_every_deed_of_the_traffic_can_be_done(shop: Shop) -> None:
    shop.seed()
    logged, orders = rows(shop, "SELECT (SELECT COUNT(*) FROM audit_log), MAX(id) FROM orders")[0]
    stock = rows(shop, "SELECT SUM(on_hand) FROM inventory WHERE warehouse = 2")[0][0]
    with closing(shop.connect()) as connection:
        for deed in dict.fromkeys(shop.deeds()):
            for _ in range(5):
                with connection.cursor() as cursor:
                    deed(cursor)
                connection.commit()
    assert rows(shop, "SELECT MAX(id), COUNT(*) FROM orders") == [(orders + 5, ORDERS)], "five placed, five removed"
    assert rows(shop, "SELECT COUNT(*) FROM customers") == [(CUSTOMERS + 5,)]
    assert rows(shop, "SELECT COUNT(*) FROM audit_log") == [(logged + 15,)]
    assert rows(shop, "SELECT SUM(on_hand) FROM inventory WHERE warehouse = 2") == [(stock + 5 * 50,)]
