"""Routing rules: patterns of the source's names decide the names in the target, also after renames."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management.base import CommandError

from tests.integration.pipeline.lab import Lab
from webapp.replicators import services
from webapp.replicators.models import ReplicatorTable

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]
ROOT = Path(__file__).resolve().parents[4]


def called(lab: Lab) -> dict[str, str]:
    rows = ReplicatorTable.objects.filter(replicator=lab.replicator).exclude(state="dropped")
    return {row.name: f"{row.target_namespace}.{row.target_name}" for row in rows}


@pytest.mark.timeout(600)
def test_tables_go_where_the_rules_say_and_follow_their_renames(lab: Lab, process_environment: dict[str, str]) -> None:
    lab.execute(
        "CREATE TABLE orders_eu (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE orders_us (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE `log` (v INT)",
        "INSERT INTO orders_eu VALUES (1, 1), (2, 2)",
        "INSERT INTO orders_us VALUES (1, 10)",
        "INSERT INTO `log` VALUES (1), (1)",
    )
    sales = f"{lab.name}_sales"
    lab.replicate(routing=f"{lab.database}.orders_*: {sales}.{{1}}_orders\n{lab.database}.ol?: {sales}.{{table}}")
    lab.run_and_compare(3)
    assert called(lab) == {
        "orders_eu": f"{sales}.eu_orders", "orders_us": f"{sales}.us_orders", "log": f"{lab.name}.log",
    }  # fmt: skip
    # A swap as online schema changes make it: through a name without a rule, to names of rules; and a new table.
    lab.execute(
        "CREATE TABLE gho (id INT PRIMARY KEY, v INT, w INT)",
        "INSERT INTO gho SELECT id, v, 7 FROM orders_eu",
        "RENAME TABLE orders_eu TO old, gho TO orders_eu",
        "RENAME TABLE orders_us TO tmp, `log` TO orders_us, tmp TO `log`",
        "CREATE TABLE orders_asia (id INT PRIMARY KEY)",
        "INSERT INTO orders_asia VALUES (1)",
        "UPDATE orders_eu SET v = 3",
        "INSERT INTO old VALUES (3, 3)",
    )
    done = subprocess.run(
        [sys.executable, "manage.py", "run", lab.name, "--until-current", "--timeout", "120"], cwd=ROOT, check=False,
        env=process_environment | {"TIDEMARK_FAULTS": "apply.move.before=kill"}, capture_output=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stdout.decode() + done.stderr.decode()
    lab.run_and_compare(5)
    expected = {
        "orders_eu": f"{sales}.eu_orders", "old": f"{sales}.old", "orders_us": f"{sales}.us_orders",
        "log": f"{lab.name}.log", "orders_asia": f"{sales}.asia_orders",
    }  # fmt: skip
    assert called(lab) == expected
    # Other rules are for tables that come later; a name that was chosen wins over both.
    services.rename_target(table=lab.table("log"), namespace=sales, name="journal")
    services.update_target(replicator=lab.replicator, target={"routing": f"{lab.database}.*: {sales}.x_{{1}}"})
    lab.execute(
        "CREATE TABLE later (id INT PRIMARY KEY)", "INSERT INTO later VALUES (1)", "INSERT INTO old VALUES (4, 4)"
    )
    lab.run_and_compare(6)
    assert called(lab) == expected | {"log": f"{sales}.journal", "later": f"{sales}.x_later"}


def test_two_tables_of_one_name_are_not_mixed(lab: Lab) -> None:
    lab.execute("CREATE TABLE a_orders (id INT PRIMARY KEY)", "INSERT INTO a_orders VALUES (1)")
    one_name = f"{lab.database}.*_orders: {lab.name}.orders"
    lab.replicate(routing=one_name)
    lab.run_and_compare(1)
    lab.execute("CREATE TABLE b_orders (id INT PRIMARY KEY)", "INSERT INTO b_orders VALUES (2)")
    with pytest.raises(CommandError, match=rf"b_orders would be written to {lab.name}\.orders, the target table of"):
        lab.run()
    refused = lab.table("b_orders")
    assert refused.state == "failed"
    services.update_target(replicator=lab.replicator, target={"routing": f"{lab.database}.*_orders: {lab.name}.{{1}}"})
    services.retry_table(table=refused)
    lab.run_and_compare(2)
    assert called(lab) == {"a_orders": f"{lab.name}.orders", "b_orders": f"{lab.name}.b"}
