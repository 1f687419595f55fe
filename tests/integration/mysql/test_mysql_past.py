"""The same server at the same address, with another past: a copy restored, a log reset, transactions lost in a
crash.
"""

from __future__ import annotations

import signal
import time
from contextlib import closing
from dataclasses import replace

import pytest

from replicator.errors import LogPurged, SourceReplaced
from replicator.sources.mysql.check.log_continuity import check_past
from testing.servers.mysql import EmbeddedMySQL
from tests.integration.resuming import KINDS, Source, running
from webapp.embedded.mariadb import EmbeddedMariaDB

pytestmark = pytest.mark.integration


server = running(*KINDS)


@pytest.fixture
def source(server: EmbeddedMariaDB | EmbeddedMySQL) -> Source:
    return Source(server)


def test_a_copy_from_before_is_refused_whatever_was_done_on_it_since(source: Source) -> None:
    """Its log has the same files, places and GTIDs again, for other transactions."""
    source.insert(1)
    assert source.read() == [1]
    source.back_up()
    source.insert(2, 3)
    assert source.read() == [2, 3]
    lost = source.offset
    source.restore()
    assert isinstance(source.refusal(), SourceReplaced)  # nothing was done on it yet
    source.insert(*range(1000, 1030))
    for _ in range(2):
        error = source.refusal()
        assert isinstance(error, SourceReplaced), error
        assert lost.file in error.message
    assert source.offset is lost


@pytest.mark.parametrize("server", [*[*KINDS][:2], pytest.param([*KINDS][2], marks=pytest.mark.long)], indirect=True)
def test_a_copy_of_what_was_read_goes_on(source: Source) -> None:
    """All that was read is in it: it is the same past."""
    source.insert(1)
    source.read()
    source.back_up()
    source.restore()
    source.insert(2)
    assert source.read() == [2]
    source.server.restart(signal.SIGKILL)
    source.insert(3)
    source.run("FLUSH BINARY LOGS")
    source.server.restart(signal.SIGKILL)
    source.insert(4)
    assert source.read() == [3, 4]
    source.server.restart()
    assert source.read() == []


def test_a_reset_log_is_refused_when_it_has_as_many_transactions_again(source: Source) -> None:
    source.run("RESET MASTER")
    source.offset = source.now()
    source.insert(1, 2, 3)
    assert source.read() == [1, 2, 3]
    time.sleep(1.1)  # a file's beginning is known to the second
    source.run("RESET MASTER")
    source.insert(*range(10, 60))
    assert source.now() > source.offset
    assert isinstance(source.refusal(), SourceReplaced)


def test_a_log_that_lost_its_last_transactions_is_refused(source: Source) -> None:
    """As after a power failure with sync_binlog = 0: the server finds a shorter file, and goes on in the next one."""
    source.insert(1)
    source.read()
    kept = source.offset
    source.insert(2, 3)
    source.read()
    source.server.stop(signal.SIGKILL)
    file = source.server.folder / "data" / source.offset.file
    with file.open("r+b") as log:
        log.truncate(kept.position)
    source.server.start()
    source.insert(*range(10, 40))
    error = source.refusal()
    assert isinstance(error, SourceReplaced), error


def test_another_transaction_at_the_place_of_the_last_one_is_refused(source: Source) -> None:
    """As after a machine was set back with its memory: the server goes on in the same file."""
    source.insert(1)
    source.read()
    past = source.offset.past
    assert past is not None
    assert past.start
    check_past(source.config, 77, past)
    for other in (past._replace(digest=past.digest ^ 1), past._replace(start=past.start - 7)):
        with pytest.raises(SourceReplaced, match="restored to an older state"):
            check_past(source.config, 77, other)


def test_of_a_file_that_is_gone_all_must_be_gone(source: Source) -> None:
    source.insert(1)
    source.read()
    source.run("FLUSH BINARY LOGS")
    assert source.read() == []
    if isinstance(source.server, EmbeddedMariaDB):
        source.run("SET GLOBAL slave_connections_needed_for_purge = 0")
    read = source.offset
    if read.gtid:  # in a log of other files, as after more than one restart of a copy
        source.offset = replace(read, file="binlog.000000", past=None)
        assert isinstance(source.refusal(), SourceReplaced)
        source.offset = read
    source.insert(2)
    source.run("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    source.purge()
    assert isinstance(source.refusal(), LogPurged)


@pytest.mark.parametrize("server", ["mariadb"], indirect=True)
def test_a_domain_that_was_deleted_from_the_log_is_no_other_past(source: Source) -> None:
    source.run("SET GLOBAL slave_connections_needed_for_purge = 0")
    with closing(source.server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION gtid_domain_id = 7")
        cursor.execute("INSERT INTO shop.t VALUES (1, 1)")
    assert source.read() == [1]
    source.run("FLUSH BINARY LOGS")
    source.insert(2)
    assert source.read() == [2]
    source.purge()
    source.run("FLUSH BINARY LOGS DELETE_DOMAIN_ID = (7)")
    for number in (3, 4):
        source.insert(number)
        assert source.read() == [number]
        assert ",7-" in source.offset.gtid
