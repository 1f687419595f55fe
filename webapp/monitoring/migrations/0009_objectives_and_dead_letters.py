"""Promises become objectives, parked rows become dead-letter rows, and stored kinds and codes are called so too."""

from __future__ import annotations

from collections.abc import Mapping

import django.db.models.deletion
from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

KINDS = {
    "rows_parked": "dead_letter_rows",
    "parked_resolved": "dead_letters_resolved",
    "parked_discarded": "dead_letters_discarded",
}
CODES = {"too_many_parked": "too_many_dead_letters"}


def _rename(apps: Apps, names: Mapping[str, str], codes: Mapping[str, str]) -> None:
    for old, new in names.items():
        apps.get_model("monitoring", "TimelineEvent").objects.filter(kind=old).update(kind=new)
    for old, new in codes.items():
        apps.get_model("monitoring", "Failure").objects.filter(code=old).update(code=new)
        for model in ("Replicator", "ReplicatorTable"):
            apps.get_model("replicators", model).objects.filter(error_code=old).update(error_code=new)


def forwards(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    del schema_editor
    _rename(apps, KINDS, CODES)


def backwards(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    del schema_editor
    _rename(apps, {new: old for old, new in KINDS.items()}, {new: old for old, new in CODES.items()})


class Migration(migrations.Migration):
    dependencies = [
        ("monitoring", "0008_plain_labels"),
        ("replicators", "0021_dead_letters"),
    ]

    operations = [
        migrations.RenameModel("TablePromise", "TableObjective"),
        migrations.AlterField(
            "tableobjective",
            "table",
            models.OneToOneField(
                on_delete=django.db.models.deletion.CASCADE, related_name="objective", to="replicators.replicatortable"
            ),
        ),
        migrations.RenameModel("ParkedRow", "DeadLetterRow"),
        migrations.AlterField(
            "deadletterrow",
            "replicator",
            models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="dead_letter_rows",
                to="replicators.replicator",
            ),
        ),
        migrations.AlterField(
            "deadletterrow",
            "table",
            models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="dead_letter_rows",
                to="replicators.replicatortable",
            ),
        ),
        migrations.RenameIndex(
            "deadletterrow",
            new_name="monitoring__replica_12b8f9_idx",
            old_name="monitoring__replica_c9f28f_idx",
        ),
        migrations.RenameIndex("deadletterrow", new_name="dead_letter_open", old_name="parked_open"),
        migrations.RemoveConstraint("deadletterrow", "parked_once"),
        migrations.AddConstraint(
            "deadletterrow", models.UniqueConstraint(fields=("table", "sequence"), name="dead_letter_once")
        ),
        migrations.RunPython(forwards, backwards),
    ]
