"""A replicator that was made before alerts, objectives, lineage and exact lags came goes on where it stopped."""

from __future__ import annotations

import pytest
from django.db.models import Sum

from tests.integration.older import older_database
from tests.integration.pipeline.lab import Lab, insert
from webapp.monitoring.models import LagRow, LagSpan

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]


def test_a_replicator_of_an_older_database_goes_on_without_reading_anything_again(lab: Lab) -> None:
    lab.execute("CREATE TABLE keyed (id INT PRIMARY KEY, v INT)", "CREATE TABLE keyless (id INT, v INT)")
    names = ("keyed", "keyless")
    with lab.transaction() as cursor:
        for name in names:
            insert(cursor, name, [(n, n) for n in range(500)])
    lab.replicate()
    lab.run_and_compare(2)
    before = {name: lab.table(name) for name in names}
    with older_database() as then:
        # What is new is gone: the database is one that the version before has filled.
        assert not [model for model in then.get_models() if model._meta.app_label in {"alerts", "telemetry"}]
        assert then.get_model("replicators.ReplicatorTable").objects.count() == 2
    for name in names:
        lab.execute(f"UPDATE {name} SET v = -1 WHERE id < 3", f"DELETE FROM {name} WHERE id = 400")
        lab.execute(f"INSERT INTO {name} VALUES (5000, 1)")
    lab.execute("ALTER TABLE keyed ADD COLUMN w INT", "UPDATE keyed SET w = 7 WHERE id = 9")
    lab.run_and_compare(2)
    for name in names:
        table, old = lab.table(name), before[name]
        assert (table.load, table.rows_read) == (old.load, old.rows_read)  # no second snapshot
        assert table.runs.count() == 1
        assert table.rows_inserted - old.rows_inserted == 1
        assert table.rows_deleted - old.rows_deleted == 1
    assert lab.table("keyed").schemas.count() == 2
    counted = LagRow.objects.filter(replicator=lab.replicator, table=None, span=LagSpan.HOUR)
    assert counted.aggregate(events=Sum("events"))["events"] == 3 + 1 + 1 + 3 + 1 + 1 + 1
