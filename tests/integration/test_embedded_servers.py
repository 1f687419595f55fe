"""Embedded servers: start, crash, go on with their data, leave nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import psutil
import psycopg2
import pytest
import redis

from testing.servers.mysql import EmbeddedMySQL
from tests.environment import SERVERS
from webapp.embedded.java_artifacts import POSTGRES
from webapp.embedded.mariadb import EmbeddedMariaDB
from webapp.embedded.ports import free_port
from webapp.embedded.postgres import EmbeddedPostgres
from webapp.embedded.postgres_family import data_folder
from webapp.embedded.postgres_source import EmbeddedPostgresSource
from webapp.embedded.processes import ProcessGroup, ServerFailed, claim, start, works
from webapp.embedded.redis import EmbeddedRedis

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[2]
T = TypeVar("T")


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that the unprivileged user of an embedded Postgres can walk to, so the test sees its files in it."""
    folder = Path(tempfile.mkdtemp(prefix="tidemark-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_folder_that_is_made_again_at_the_same_path_gets_a_server_without_data(tmp_path: Path) -> None:
    home = tmp_path / "home"
    tmp_path.chmod(0o700)
    before = data_folder(home / "postgres")
    assert data_folder(home / "postgres") == before
    shutil.rmtree(home, ignore_errors=True)
    again = data_folder(home / "postgres")
    if os.geteuid() == 0:
        assert {again.parent.parent, before.parent.parent} == {SERVERS}
        assert again != before
    else:
        assert again == before == home / "postgres"


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


def test_mysql_goes_on_with_its_data_after_a_crash(tmp_path: Path) -> None:
    server = EmbeddedMySQL(tmp_path)
    server.start()
    try:
        assert not [file for file in tmp_path.glob("*.sql") if server.password in file.read_text()]
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop")
            cursor.execute("CREATE TABLE shop.t (a INT PRIMARY KEY)")
            cursor.execute("INSERT INTO shop.t VALUES (1), (2)")
        server.restart(signal.SIGKILL)
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT @@version, @@log_bin, @@binlog_format, @@binlog_row_metadata, @@gtid_mode")
            assert cursor.fetchone() == ("8.0.12", 1, "ROW", "FULL", "ON")
            cursor.execute("SELECT a FROM shop.t")
            assert cursor.fetchall() == ((1,), (2,))
    finally:
        server.stop()


def test_a_library_that_cannot_be_had_is_named_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from testing.servers import shared_libraries

    monkeypatch.setenv("TIDEMARK_CACHE", str(tmp_path))
    monkeypatch.setattr(shared_libraries, "_missing", lambda program, folder: ["libaio.so.1"])
    monkeypatch.setenv("PATH", "")  # no apt
    with pytest.raises(ServerFailed, match=r"libaio\.so\.1: install it .*apt-get install libaio1t64 or libaio1"):
        shared_libraries.library_path(tmp_path / "program")


def test_postgres_goes_on_with_its_data_after_a_crash(reachable: Path) -> None:
    server = EmbeddedPostgres(reachable)
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


def test_nothing_of_a_server_that_does_not_stop_in_time_is_left(reachable: Path) -> None:
    """A Postgres that waits for its sessions (SIGTERM), each of which has its own process group."""
    server = EmbeddedPostgres(reachable)
    server.start()
    session = psycopg2.connect(server.url)
    try:
        child = server._child
        assert child is not None
        family = psutil.Process(child.process.pid).children(recursive=True)
        child.stop(signal.SIGTERM, 0.5)
        assert not [member for member in family if works(member)]
        server.start()
    finally:
        session.close()
        server.stop()


def test_what_a_killed_server_starts_in_its_last_moment_is_killed_too(tmp_path: Path) -> None:
    """A session that came while its server was killed kept the shared memory, and the server could not start again."""
    forks = "import os, time\nfor _ in range(600):\n if not os.fork(): os.setsid(); time.sleep(600)\n time.sleep(.002)"
    marker = str(tmp_path)
    child = start("forks", [sys.executable, "-c", forks, marker], tmp_path / "log")
    while len(child._family()) < 5:
        assert child.alive
    child.stop(signal.SIGKILL)
    left = [one for one in psutil.process_iter(["cmdline"]) if marker in (one.info["cmdline"] or ())]
    for one in left:
        one.kill()
    assert not left


def test_a_child_that_ended_keeps_its_process_id_until_it_is_stopped_and_is_stopped_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program that got the id was killed in its place."""
    child = start("ends", [sys.executable, "-c", ""], tmp_path / "log")
    assert child.wait(30)
    assert not child.alive
    assert psutil.Process(child.process.pid).status() == psutil.STATUS_ZOMBIE
    child.stop()
    assert not psutil.pid_exists(child.process.pid)
    monkeypatch.setattr(os, "killpg", lambda *_: pytest.fail("whose group is it?"))
    child.stop(signal.SIGKILL)


@pytest.mark.parametrize(
    "version",
    [min(POSTGRES), max(POSTGRES), *(pytest.param(one, marks=pytest.mark.long) for one in sorted(POSTGRES)[1:-1])],
)
def test_a_postgres_source_goes_on_with_its_data_and_slots_after_a_crash(reachable: Path, version: str) -> None:
    server = EmbeddedPostgresSource(reachable, version=version)
    server.start()
    try:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT pg_create_logical_replication_slot('kept', 'pgoutput')")
            cursor.execute("CREATE EXTENSION hstore; CREATE TABLE t (a hstore); INSERT INTO t VALUES ('x=>1')")
        connection.close()
        server.restart(signal.SIGKILL)
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SHOW server_version")
            assert cursor.fetchone() == (version.removesuffix(".0"),)
            cursor.execute("SELECT slot_name, a::text FROM pg_replication_slots, t")
            assert cursor.fetchall() == [("kept", '"x"=>"1"')]
            names = ["wal_level", "max_wal_senders", "max_prepared_transactions", "unix_socket_directories", "fsync"]
            cursor.execute("SELECT array_agg(current_setting(name)) FROM unnest(%s) AS name", (names,))
            assert cursor.fetchone() == (["logical", "40", "20", "", "on"],)
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


def _start_everything_and_die(folder: Path, ports: list[int]) -> None:
    """In a separate process: start all servers, then SIGKILL itself."""
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from webapp.embedded.mariadb import EmbeddedMariaDB\n"
        "from webapp.embedded.postgres import EmbeddedPostgres\n"
        "from webapp.embedded.redis import EmbeddedRedis\n"
        "folder, *ports = sys.argv[1:]\n"
        "for name, make, port in zip('mpr', (EmbeddedMariaDB, EmbeddedPostgres, EmbeddedRedis), ports):\n"
        "    server = make(Path(folder) / name, int(port))\n"
        "    server.start()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", code, str(folder), *map(str, ports)]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -signal.SIGKILL


def test_all_start_again_at_once_after_their_parent_was_killed(reachable: Path) -> None:
    ports = [free_port() for _ in range(3)]
    _start_everything_and_die(reachable, ports)
    mariadb = EmbeddedMariaDB(reachable / "m", ports[0])
    postgres = EmbeddedPostgres(reachable / "p", ports[1])
    redis_server = EmbeddedRedis(reachable / "r", ports[2])
    servers = (mariadb, postgres, redis_server)
    try:
        for server in servers:
            server.start()
        mariadb.connect().close()
        psycopg2.connect(postgres.url).close()
        with redis.Redis.from_url(redis_server.url) as client:
            assert client.ping()
    finally:
        for server in servers:
            server.stop()


def test_a_stale_lock_file_that_names_another_program_does_not_matter(reachable: Path) -> None:
    server = EmbeddedPostgres(reachable)
    server.start()
    server.stop(signal.SIGKILL)
    lock = server.folder / "data" / "postmaster.pid"
    lock.write_text("\n".join([str(os.getppid()), *lock.read_text().splitlines()[1:]]) + "\n")
    try:
        server.start()
        assert server.running
    finally:
        server.stop()


def test_postgres_wants_its_password(reachable: Path) -> None:
    server = EmbeddedPostgres(reachable)
    server.start()
    try:
        with pytest.raises(psycopg2.OperationalError, match="password"):
            psycopg2.connect(host="127.0.0.1", port=server.port, user="tidemark", password="wrong", dbname="postgres")
        psycopg2.connect(EmbeddedPostgres(reachable, server.port).url).close()
    finally:
        server.stop()


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ServerFailed, match=str(port)):
            claim(port, seconds=0.2)


def test_a_group_notices_a_dead_child_and_leaves_none_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.embedded.processes.STOP_SECONDS", 0.5)
    group = ProcessGroup(tmp_path)
    stays = group.start("stays", ["sh", "-c", "trap '' TERM; sleep 60 & wait"])
    ends = group.start("ends", ["sh", "-c", "echo bye; exit 3"])
    assert ends.process.wait(10) == 3
    assert [child.name for child in group.dead()] == ["ends"]
    assert ends.tail() == "bye"
    grandchild = _until(lambda: psutil.Process(stays.process.pid).children())[0]
    group.stop()
    assert not stays.alive
    _until(lambda: not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE)


def _until(condition: Callable[[], T]) -> T:
    deadline = time.monotonic() + 10
    while not (value := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return value
