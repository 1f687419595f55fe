"""The metadata database is restored from before a topic's last messages, which stay: their numbers are given again."""

from __future__ import annotations

from contextlib import closing

import psycopg2
import pytest
from django.conf import settings
from django.db import connection, connections
from psycopg2 import sql

from replicator.model.identifiers import TableId
from tests.integration.kafka.conftest import KafkaLab
from webapp.replicators.services.tables import remove_table

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]


def copied(source: str, copy: str) -> None:
    """Replace database `copy` with a copy of `source`, after ending all connections to both."""
    connections.close_all()
    with closing(psycopg2.connect(settings.DATABASE_URL, dbname="postgres")) as server, server.cursor() as cursor:
        server.autocommit = True
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname IN (%s, %s)", (source, copy)
        )
        names = sql.Identifier(copy), sql.Identifier(source)
        cursor.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(names[0]))
        cursor.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*names))


def test_topics_that_are_ahead_of_the_restored_journal_are_sent_again(lab: KafkaLab) -> None:
    """After the copy, numbers went to changes of `x`, which was taken out after the restore: then they go to later
    changes of `t`.
    """
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "CREATE TABLE u (id INT PRIMARY KEY)")
    lab.execute("INSERT INTO t SELECT seq, 0 FROM seq_1_to_50", "INSERT INTO u VALUES (1)")
    lab.execute("CREATE TABLE x (id INT PRIMARY KEY)")
    lab.replicate("t", "u", "x")
    lab.run()
    database = connection.settings_dict["NAME"]
    copy = f"{database}_copy"
    copied(database, copy)
    try:
        lab.execute("INSERT INTO x SELECT seq FROM seq_1_to_1000", "DELETE FROM t WHERE id <= 5")
        lab.run()
        ahead = lab.table("t").applied
        copied(copy, database)
        assert lab.table("t").applied < ahead - 1000
        remove_table(replicator=lab.replicator, table=TableId(lab.database, "x"))
        lab.execute("INSERT INTO u VALUES (2)", "UPDATE t SET v = 1 WHERE id % 2 = 0", "DELETE FROM t WHERE id > 45")
        lab.run()
    finally:
        with closing(psycopg2.connect(settings.DATABASE_URL, dbname="postgres")) as server, server.cursor() as cursor:
            server.autocommit = True
            cursor.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(copy)))
    for table in "tu":
        lab.assert_rebuilt(table)
    assert [lab.table(name).runs.count() for name in "tu"] == [2, 1]
    assert lab.table("t").failures.filter(code="values_lost", message__contains="restored metadata database").exists()
    assert lab.replicator.next_sequence > ahead
