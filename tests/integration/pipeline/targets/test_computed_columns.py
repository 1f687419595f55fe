"""Computed columns: what they hold through load, log, DDL and renames, and how they come and go."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management.base import CommandError

from replicator.verification.target import open_catalog
from tests.integration.pipeline.lab import Lab
from tests.integration.pipeline.postgres_lab import PostgresLab
from webapp.destinations.lakes import catalog_config
from webapp.replicators import services

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]
OF_CHANGES = "at = commit_time, place = offset, op = operation"
DETERMINATE = (
    "tenant = 'it''s eu', shard = 7, live = true, v_text = cast(v as string), v_wide = cast(v as decimal(20, 2))"
)


def rows_of(lab: Lab, name: str) -> list[dict[str, Any]]:
    """Of the target."""
    table = lab.table(name)
    found = open_catalog(catalog_config()).load_table((table.target_namespace, table.target_name))
    return list(found.scan().to_arrow().to_pylist())


def rules(lab: Lab, keyed: str = f"{DETERMINATE}, {OF_CHANGES}", keyless: str = DETERMINATE) -> str:
    return f"{lab.database}.keyed*: {keyed}\n{lab.database}.keyless: {keyless}"


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "mode", ["mirror", "history", *(pytest.param(one, marks=pytest.mark.long) for one in ("soft_delete", "changelog"))]
)
def test_computed_columns_are_exact(any_lab: Lab, mode: str) -> None:
    lab, begin = any_lab, datetime.now(UTC) - timedelta(seconds=5)
    lab.execute(
        "CREATE TABLE keyed (id INT PRIMARY KEY, v INT, at2 TIMESTAMP NULL, long_text TEXT)",
        "INSERT INTO keyed VALUES (1, 1, '2020-02-29 23:59:59.5', 'a'), (2, NULL, NULL, NULL), (3, -3, NULL, 'c')",
    )
    if mode in {"mirror", "changelog"}:
        lab.execute("CREATE TABLE keyless (v INT)", "INSERT INTO keyless VALUES (1), (1), (NULL), (2)")
        if isinstance(lab, PostgresLab):
            lab.execute("ALTER TABLE keyless REPLICA IDENTITY FULL")
    count = 2 if mode in {"mirror", "changelog"} else 1
    day = f"{DETERMINATE}, {OF_CHANGES}, day2 = cast(at2 as date), text2 = cast(long_text as string)"
    lab.replicate(options={"mode": mode}, computed_columns=rules(lab, day))
    lab.run_and_compare(count)
    loaded = {row["id"]: row for row in rows_of(lab, "keyed")}
    assert {(row["op"], row["place"], row["tenant"], row["shard"], row["live"]) for row in loaded.values()} == {
        ("READ", None, "it's eu", 7, True)
    }
    assert all(begin < row["at"] <= datetime.now(UTC) for row in loaded.values())
    before = datetime.now(UTC) - timedelta(seconds=2)
    lab.execute(
        "UPDATE keyed SET v = 20 WHERE id = 2",
        "UPDATE keyed SET id = 30 WHERE id = 3",
        "INSERT INTO keyed VALUES (4, 4, '1971-12-31 23:00:00', NULL)",
        "DELETE FROM keyed WHERE id = 1",
    )
    if count > 1:
        lab.execute("UPDATE keyless SET v = 3 WHERE v = 2", "DELETE FROM keyless WHERE v IS NULL")
    lab.run_and_compare(count)
    if mode == "mirror":
        merged = {row["id"]: row for row in rows_of(lab, "keyed")}
        assert {key: row["op"] for key, row in merged.items()} == {2: "UPDATE", 30: "UPDATE", 4: "INSERT"}
        assert all(before < row["at"] <= datetime.now(UTC) and row["place"] for row in merged.values())
        assert len({row["place"] for row in merged.values()}) == 3
    lab.execute("ALTER TABLE keyed ADD COLUMN w INT", "UPDATE keyed SET w = id", "INSERT INTO keyed (id) VALUES (5)")
    lab.run_and_compare(count)
    services.resnapshot_table(table=lab.table("keyed"))
    lab.execute("UPDATE keyed SET v = 40 WHERE id = 4")
    lab.run_and_compare(count)
    more = rules(lab, f"{day}, later = 'now', id_text = cast(id as string)", f"{DETERMINATE}, later = 'now'")
    services.update_target(replicator=lab.replicator, target={"computed_columns": more})
    lab.execute("UPDATE keyed SET v = 41 WHERE id = 4", "DELETE FROM keyed WHERE id = 5")
    lab.run_and_compare(count)
    services.update_target(
        replicator=lab.replicator, target={"computed_columns": rules(lab, "later = 'then'", "v2 = 1")}
    )
    lab.run_and_compare(count)


@pytest.mark.timeout(600)
def test_large_values_that_an_update_left_out_keep_their_casts(any_lab: Lab) -> None:
    lab = any_lab
    lab.execute("CREATE TABLE keyed (id INT PRIMARY KEY, v INT, long_text TEXT)")
    lab.replicate(computed_columns=f"{lab.database}.keyed: copy = cast(long_text as string), one = 1")
    lab.run()
    letters = "".join(chr(65 + (n * 7919) % 57) for n in range(20_000)).replace("\\", "x")
    lab.execute(f"INSERT INTO keyed VALUES (1, 1, '{letters}'), (2, 2, 'b')", "UPDATE keyed SET v = 10")
    lab.run_and_compare(1)
    lab.execute("UPDATE keyed SET v = 11 WHERE id = 1", "UPDATE keyed SET id = 3 WHERE id = 1")
    lab.run_and_compare(1)
    assert {len(row["copy"]) for row in rows_of(lab, "keyed")} == {len(letters), 1}


@pytest.mark.timeout(600)
def test_computed_columns_come_change_and_go(lab: Lab) -> None:
    lab.execute(
        "CREATE TABLE keyed (id INT PRIMARY KEY, v INT)", "CREATE TABLE keyless (v INT)",
        "INSERT INTO keyed VALUES (1, 1), (2, 2)", "INSERT INTO keyless VALUES (1), (1)",
    )  # fmt: skip
    lab.replicate()
    lab.run_and_compare(2)
    for text in (
        rules(lab),
        rules(lab, "tenant = 'us', at = commit_time", "shard = 8"),
        rules(lab, "tenant = 5", "shard = 8, more = cast(v as string)"),
        "",
    ):
        lab.execute("UPDATE keyed SET v = v + 1 WHERE id = 1", "INSERT INTO keyless VALUES (5)")
        assert services.update_target(replicator=lab.replicator, target={"computed_columns": text}) == [
            "computed_columns"
        ]
        lab.execute("UPDATE keyed SET v = v + 1 WHERE id = 2", "DELETE FROM keyless WHERE v = 5 LIMIT 1")
        lab.run_and_compare(2)
    assert set(rows_of(lab, "keyed")[0]) == {"id", "v", "_sequence_num"}
    # Renames lead out of a rule and into one.
    services.update_target(
        replicator=lab.replicator,
        target={"computed_columns": f"{lab.database}.keyed: tenant = 'x', c = cast(v as string)"},
    )
    lab.run_and_compare(2)
    lab.execute(
        "CREATE TABLE gho (id INT PRIMARY KEY, v INT, w INT)", "INSERT INTO gho SELECT id, v, 1 FROM keyed",
        "RENAME TABLE keyed TO old, gho TO keyed", "UPDATE keyed SET w = 2 WHERE id = 1",
    )  # fmt: skip
    lab.run_and_compare(3)
    assert {row["tenant"] for row in rows_of(lab, "keyed")} == {"x"}
    assert "tenant" not in rows_of(lab, "old")[0]


@pytest.mark.timeout(600)
def test_a_column_that_cannot_be_computed_stops_its_table_and_says_so(lab: Lab) -> None:
    lab.execute("CREATE TABLE keyed (id INT PRIMARY KEY, v INT)", "CREATE TABLE keyless (v INT)")
    lab.replicate(computed_columns=rules(lab, "tenant = 'x', c = cast(v as string)", "n = 1"))
    lab.run_and_compare(2)
    lab.execute("ALTER TABLE keyed ADD COLUMN Tenant INT", "INSERT INTO keyless VALUES (1)")
    with pytest.raises(CommandError, match="The computed column tenant has the name of a column of the table"):
        lab.run()
    services.update_target(replicator=lab.replicator, target={"computed_columns": rules(lab, "c = cast(v as string)")})
    lab.run_and_compare(2)
    lab.execute("ALTER TABLE keyed DROP COLUMN v")
    with pytest.raises(CommandError, match="The computed column c is a cast of v, which is not a replicated column"):
        lab.run()
    services.update_target(replicator=lab.replicator, target={"computed_columns": ""})
    lab.run_and_compare(2)
