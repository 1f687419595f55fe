"""Tables that share one target table: it has all rows of each, under that table's value, also after DDL and renames."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from django.core.management.base import CommandError

from replicator.errors import ConfigurationError
from replicator.verification.target import open_catalog
from tests.integration.pipeline.lab import Lab
from tests.integration.pipeline.postgres_lab import PostgresLab
from webapp.destinations.lakes import catalog_config
from webapp.replicators import services

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]
ROOT = Path(__file__).resolve().parents[4]


def shared(lab: Lab) -> list[dict[str, Any]]:
    """Rows of the shared table."""
    found = open_catalog(catalog_config()).load_table((lab.name, "orders"))
    return list(found.scan().to_arrow().to_pylist())


def rows(lab: Lab) -> dict[str, int]:
    """By value."""
    return dict(Counter(row["shop"] for row in shared(lab)))


def rule(lab: Lab) -> str:
    return f"{lab.database}.orders_*: {lab.name}.orders shared by shop = {{1}}"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["mirror", "soft_delete", "history"])
def test_shards_are_one_table(any_lab: Lab, mode: str) -> None:
    lab = any_lab
    for shard in ("eu", "us", "asia"):
        lab.execute(
            f"CREATE TABLE orders_{shard} (id INT PRIMARY KEY, v INT, long_text TEXT)",
            f"INSERT INTO orders_{shard} VALUES (1, 1, 'a'), (2, NULL, NULL), (3, -3, 'c')",
        )
    lab.replicate(options={"mode": mode}, routing=rule(lab), computed_columns=f"{lab.database}.*: twice = 7")
    lab.run_and_compare(3)
    assert rows(lab) == {"eu": 3, "us": 3, "asia": 3}
    rng, ids = random.Random(7), dict.fromkeys(("eu", "us", "asia"), 3)
    letters = "".join(chr(65 + (n * 7919) % 57) for n in range(20_000)).replace("\\", "x")
    for _ in range(3):
        for _ in range(25):
            shard = rng.choice(list(ids))
            table, one = f"orders_{shard}", rng.randint(1, ids[shard])
            ids[shard] += 1
            statement = rng.choice(
                (
                    f"INSERT INTO {table} VALUES ({ids[shard]}, {ids[shard]}, '{letters[: rng.choice((5, 20_000))]}')",
                    f"UPDATE {table} SET v = {rng.randint(0, 99)} WHERE id = {one}",
                    f"UPDATE {table} SET id = {1000 + ids[shard]} WHERE id = {one}",
                    f"DELETE FROM {table} WHERE id = {one}",
                )
            )
            lab.execute(statement)
        lab.run_and_compare(3)
    lab.execute("TRUNCATE TABLE orders_us", "INSERT INTO orders_us VALUES (1, 1, 'new')")
    services.resnapshot_table(table=lab.table("orders_eu"))
    lab.execute("UPDATE orders_eu SET v = 5")
    lab.run_and_compare(3)
    lab.execute("DROP TABLE orders_asia", "INSERT INTO orders_us VALUES (2, 2, 'x')")
    lab.run_and_compare(2)
    assert set(rows(lab)) == {"eu", "us"}


@pytest.mark.timeout(900)
def test_columns_of_shards_unite(any_lab: Lab) -> None:
    lab = any_lab
    lab.execute(
        "CREATE TABLE orders_eu (id INT PRIMARY KEY, v INT, f REAL)" if isinstance(lab, PostgresLab)
        else "CREATE TABLE orders_eu (id INT PRIMARY KEY, v INT, f FLOAT)",
        "CREATE TABLE orders_us (id BIGINT PRIMARY KEY, v INT, w VARCHAR(10))",
        "INSERT INTO orders_eu VALUES (1, 1, 1.5)",
        "INSERT INTO orders_us VALUES (1099511627776, 1, 'a')",
    )  # fmt: skip
    lab.replicate(routing=rule(lab))
    lab.run_and_compare(2)
    kind = "ALTER COLUMN v TYPE BIGINT" if isinstance(lab, PostgresLab) else "MODIFY v BIGINT"
    for statements in (
        ["ALTER TABLE orders_eu ADD COLUMN w VARCHAR(10)", "UPDATE orders_eu SET w = 'eu'"],
        [f"ALTER TABLE orders_us {kind}", "INSERT INTO orders_us VALUES (2, 1099511627776, 'b')"],
        ["UPDATE orders_eu SET v = 7", "INSERT INTO orders_eu VALUES (2, 2, NULL, 'x')"],
        ["ALTER TABLE orders_us DROP COLUMN w", "INSERT INTO orders_us VALUES (3, 3)"],
        ["ALTER TABLE orders_us RENAME COLUMN v TO f2", "ALTER TABLE orders_us ADD COLUMN v INT"],
        ["UPDATE orders_us SET v = 9 WHERE id = 2", "INSERT INTO orders_us VALUES (4, 4, 4)"],
    ):
        lab.execute(*statements)
        lab.run_and_compare(2)
    assert {row["w"] for row in shared(lab)} == {"eu", "x", None}
    # What no type holds together stops one of them, and the other goes on.
    kind = "ALTER COLUMN w TYPE INT USING id::int" if isinstance(lab, PostgresLab) else "MODIFY w INT"
    lab.execute("UPDATE orders_eu SET w = '1'", "ALTER TABLE orders_us ADD COLUMN w VARCHAR(10)")
    lab.run_and_compare(2)
    lab.execute(f"ALTER TABLE orders_eu {kind}", "INSERT INTO orders_us VALUES (5, 5, 5, 'five')")
    with pytest.raises(CommandError, match="no type of the target holds both"):
        lab.run()
    assert lab.table("orders_eu").state == "failed"
    assert {row["w"] for row in shared(lab) if row["shop"] == "us"} == {None, "five"}


@pytest.mark.timeout(900)
def test_tables_are_renamed_into_a_shared_table_and_out_of_it(lab: Lab, process_environment: dict[str, str]) -> None:
    lab.execute(
        "CREATE TABLE orders_eu (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE orders_us (id INT PRIMARY KEY, v INT)",
        "INSERT INTO orders_eu VALUES (1, 1), (2, 2)",
        "INSERT INTO orders_us VALUES (1, 10)",
    )
    lab.replicate(routing=rule(lab))
    lab.run_and_compare(2)
    lab.execute(
        "CREATE TABLE gho (id INT PRIMARY KEY, v INT, w INT)",
        "INSERT INTO gho SELECT id, v, 7 FROM orders_eu",
        "RENAME TABLE orders_eu TO old, gho TO orders_eu",
        "RENAME TABLE orders_us TO orders_usa",
        "CREATE TABLE orders_asia (id INT PRIMARY KEY)",
        "INSERT INTO orders_asia VALUES (1)",
        "UPDATE orders_eu SET v = 3",
        "INSERT INTO old VALUES (3, 3)",
    )
    for point in ("apply.move.before", "apply.create.after", "apply.drop.after"):
        done = subprocess.run(
            [sys.executable, "manage.py", "run", lab.name, "--until-current", "--timeout", "120"], cwd=ROOT,
            env=process_environment | {"TIDEMARK_FAULTS": f"{point}=kill"}, capture_output=True, timeout=200,
            check=False,
        )  # fmt: skip
        assert done.returncode in {0, -signal.SIGKILL}, done.stdout.decode() + done.stderr.decode()
    lab.run_and_compare(4)
    assert rows(lab) == {"eu": 2, "usa": 1, "asia": 1}
    with pytest.raises(ConfigurationError, match="would share another target table than now"):
        services.update_target(replicator=lab.replicator, target={"routing": ""})
    with pytest.raises(ConfigurationError, match="shares the target table"):
        services.rename_target(table=lab.table("orders_eu"), namespace=lab.name, name="x")
    lab.execute("RENAME TABLE orders_eu TO a, orders_usa TO b, orders_asia TO c", "UPDATE a SET v = 4")
    lab.run_and_compare(4)
    lab.execute("RENAME TABLE a TO orders_x", "CREATE TABLE orders_y (v INT)", "INSERT INTO orders_y VALUES (1)")
    with pytest.raises(CommandError, match="need a key"):
        lab.run()
    assert rows(lab) == {"x": 2}


@pytest.mark.timeout(600)
def test_keys_that_are_gone_go_in_one_part_alone(lab: Lab) -> None:
    """Deleted where the log does not show it: the DELETE is made up for, with the computed columns of its table."""
    for shard in ("eu", "us"):
        lab.execute(
            f"CREATE TABLE orders_{shard} (id INT PRIMARY KEY, v INT)",
            f"INSERT INTO orders_{shard} VALUES (1, 1), (2, 2)",
        )
    lab.replicate(routing=rule(lab))
    lab.run_and_compare(2)
    with lab.connect(database=lab.database).cursor() as cursor:
        cursor.execute("SET SESSION sql_log_bin = 0")
        cursor.execute("DELETE FROM orders_eu WHERE id = 1")
    services.read_keys(table=lab.table("orders_eu"), keys=[1, 2, 7])
    lab.run_and_compare(2)
    assert rows(lab) == {"eu": 1, "us": 2}


@pytest.mark.timeout(600)
def test_verification_looks_at_one_table_and_another_programs_writes_are_found(lab: Lab) -> None:
    for shard in ("eu", "us"):
        lab.execute(
            f"CREATE TABLE orders_{shard} (id INT PRIMARY KEY, v INT)",
            f"INSERT INTO orders_{shard} VALUES (1, 1), (2, 2)",
        )
    lab.execute("ALTER TABLE orders_eu ADD COLUMN w INT")
    lab.replicate(routing=rule(lab))
    lab.run_and_compare(2)
    copy = open_catalog(catalog_config()).load_table((lab.name, "orders"))
    with pytest.warns(UserWarning, match="Merge on read"):
        copy.delete("shop = 'eu' and id = 1")
    found = {report.pair.table: (report.missing, report.extra, report.columns) for report in lab.compare()}
    assert found == {"orders_eu": (1, 0, []), "orders_us": (0, 0, [])}
    changed = copy.scan(row_filter="shop = 'us'").to_arrow()
    place = changed.schema.get_field_index("w")
    changed = changed.set_column(place, changed.schema.field(place), pa.array([7, 7], pa.int32()))
    with pytest.warns(UserWarning, match="Merge on read"):
        copy.overwrite(changed, "shop = 'us'")
    found = {report.pair.table: (report.missing, report.extra, report.columns) for report in lab.compare()}
    assert found["orders_us"] == (0, 0, ["column w, which the source has not, has 2 values"])
    lab.execute("UPDATE orders_us SET v = 3", "UPDATE orders_eu SET v = 4")
    lab.run()
    for shard in ("eu", "us"):
        services.resnapshot_table(table=lab.table(f"orders_{shard}"))
    lab.run_and_compare(2)
