"""The whole way from a real MySQL 8.0: its types, its defaults, its GTIDs, its DDL; equal row by row."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from replicator.sources.base import CheckResult
from testing.servers.mysql import EmbeddedMySQL
from tests.integration.pipeline.lab import Lab, insert
from webapp.connections import services as connections

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def lab8(mysql: EmbeddedMySQL, transactional_db: Any) -> Iterator[Lab]:
    one = Lab(mysql.address, f"lab_{uuid.uuid4().hex[:8]}")
    yield one
    one.close()


THINGS = (
    "CREATE TABLE things (id BIGINT UNSIGNED PRIMARY KEY, name VARCHAR(60), doc JSON, kind ENUM('a', 'ü', 'c'), tags"
    " SET('x', 'y'), price DECIMAL(20, 6), at TIMESTAMP(6) NULL, day DATE, span TIME(3), raw BINARY(4), bits BIT(9),"
    " total DOUBLE, twice BIGINT UNSIGNED GENERATED ALWAYS AS (id + 1) VIRTUAL, place POINT) CHARACTER SET utf8mb4"
)
PAIRS = "CREATE TABLE pairs (a VARCHAR(20) COLLATE utf8mb4_0900_ai_ci, b INT, v INT, PRIMARY KEY (a, b))"
CLICKS = "CREATE TABLE clicks (page VARCHAR(20), n TINYINT UNSIGNED)"
THING = (
    "INSERT INTO things (id, name, doc, kind, tags, price, at, day, span, raw, bits, total, place) VALUES (%s, %s, "
    '\'{"b": [1, 2.5, "ü", null], "a": {"x": 18446744073709551615}}\', \'ü\', \'x,y\', -12.345678, '
    "'2026-02-03 04:05:06.789012', '2026-02-03', '-12:34:56.789', X'01000000', b'101010101', 0.1, POINT(1.5, -2))"
)
EVERY_BIT = 18_446_744_073_709_551_614


def test_snapshot_log_ddl_and_a_crash_of_the_server_end_equal(lab8: Lab, mysql: EmbeddedMySQL) -> None:
    lab8.execute(THINGS, PAIRS, CLICKS)
    with lab8.transaction() as cursor:
        for n in (*range(1500), EVERY_BIT):
            cursor.execute(THING, (n, f"ding {n} ü 🙂"))
        insert(cursor, "pairs", [(a, b, 0) for a in ("a", "ab", "Z", "é", "") for b in range(40)])
        insert(cursor, "clicks", [("/", n % 3) for n in range(300)])
    lab8.replicate()
    lab8.run()

    with lab8.transaction() as cursor:
        cursor.execute("UPDATE things SET doc = JSON_SET(doc, '$.b[1]', 'new', '$.c', TRUE) WHERE id < 100")
        cursor.execute("UPDATE things SET id = id + 100000 WHERE id BETWEEN 200 AND 210")
        cursor.execute("DELETE FROM pairs WHERE a = 'Z'")
        cursor.execute("DELETE FROM clicks WHERE n = 1 LIMIT 7")
        cursor.execute(THING, (5_000, "late"))
    lab8.execute(
        "ALTER TABLE pairs ADD COLUMN w VARCHAR(10) DEFAULT 'new', ALGORITHM=INSTANT",
        "UPDATE pairs SET w = 'seen' WHERE b < 3",
        "ALTER TABLE things RENAME COLUMN name TO title, DROP COLUMN total",
        "UPDATE things SET title = 'renamed' WHERE id = 3",
        "CREATE TABLE fresh LIKE pairs",
        "INSERT INTO fresh SELECT * FROM pairs",
        "CREATE TABLE years (id INT PRIMARY KEY, y YEAR, u INT UNSIGNED, s INT, e ENUM('x', 'é') CHARACTER SET utf16)",
        "INSERT INTO years VALUES (1, 2000, 4000000000, -1, 'é')",
        "TRUNCATE TABLE clicks",
        "INSERT INTO clicks VALUES ('/after', 255)",
    )
    lab8.sql.close()
    mysql.restart(signal.SIGKILL)
    lab8.execute(f"USE `{lab8.database}`", "DELETE FROM fresh WHERE b = 39", "UPDATE pairs SET v = b * 2 WHERE b % 2")
    assert lab8.run_and_compare(5) > 1500


def test_the_default_plugin_asks_for_a_verified_server_unless_it_remembers_the_login(
    lab8: Lab, mysql: EmbeddedMySQL
) -> None:
    user, password = f"{lab8.name}_u", "пароль"
    lab8.execute(f"CREATE USER '{user}'@'%' IDENTIFIED BY '{password}'", f"GRANT ALL ON *.* TO '{user}'@'%'")

    def tried(tls: str) -> list[CheckResult]:
        ca = (mysql.folder / "data" / "ca.pem").read_text() if tls.startswith("verify") else ""
        config = {**lab8.address, "user": user, "password": password, "tls": tls, "ca": ca}
        return connections.test_connection(kind="mysql", config=config)

    for tls in ("disabled", "preferred", "required"):
        first = tried(tls)[0]
        assert (first.status, "in clear text (caching_sha2_password)" in first.detail) == ("failed", True), first
        assert "ca.pem" in first.remedy
    assert not [one for one in tried("verify_ca") if one.status == "failed"]
    for tls in ("disabled", "required"):
        encryption = next(one for one in tried(tls) if one.name == "tls")
        assert (encryption.status, "from its cache" in encryption.detail) == ("warning", True)
    lab8.execute("FLUSH PRIVILEGES")
    assert tried("required")[0].status == "failed"
