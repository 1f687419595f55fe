"""Embedded servers: start, crash, go on with their data, leave nothing behind."""

from __future__ import annotations

import signal
from pathlib import Path

import psycopg2
import pytest
import redis

from webapp.embedded.mariadb import EmbeddedMariaDB
from webapp.embedded.postgres import EmbeddedPostgres
from webapp.embedded.processes import ServerFailed
from webapp.embedded.redis import EmbeddedRedis

pytestmark = pytest.mark.integration


def test_mariadb_goes_on_with_its_data_after_a_crash(tmp_path: Path) -> None:
    server = EmbeddedMariaDB(tmp_path)
    server.start()
    try:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop")
        server.restart(signal.SIGKILL)
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT @@log_bin, @@binlog_format, @@binlog_row_metadata FROM DUAL")
            assert cursor.fetchone() == (1, "ROW", "FULL")
            cursor.execute("SHOW DATABASES LIKE 'shop'")
            assert cursor.fetchone() == ("shop",)
    finally:
        server.stop()


def test_postgres_goes_on_with_its_data_after_a_crash(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path)
    server.start()
    try:
        with psycopg2.connect(server.url) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE t (a int)")
        connection.close()
        server.stop(signal.SIGKILL)
        server.start()
        with psycopg2.connect(server.url) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM t")
            assert cursor.fetchone() == (0,)
        connection.close()
    finally:
        server.stop()


def test_redis_answers(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path)
    server.start()
    try:
        client = redis.Redis.from_url(server.url)
        assert client.ping()
        client.close()
    finally:
        server.stop()


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    server = EmbeddedMariaDB(tmp_path, options={"no-such-option": "1"})
    with pytest.raises(ServerFailed, match="no-such-option"):
        server.start()
