"""The rule `rows_parked` becomes `dead_letter_rows`."""

from __future__ import annotations

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def forwards(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    del schema_editor
    apps.get_model("alerts", "Rule").objects.filter(kind="rows_parked").update(kind="dead_letter_rows")


def backwards(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    del schema_editor
    apps.get_model("alerts", "Rule").objects.filter(kind="dead_letter_rows").update(kind="rows_parked")


class Migration(migrations.Migration):
    dependencies = [("alerts", "0003_plain_labels")]
    operations = [
        migrations.AlterField(
            "rule",
            "kind",
            models.CharField(
                choices=[
                    ("slo_burn", "SLO: error budget burns too fast"),
                    ("lag", "Lag: target too far behind"),
                    ("table_failed", "Table failed"),
                    ("stopped", "Replicator stopped or failing"),
                    ("log_kept", "Source log retention too high, or log lost"),
                    ("dead_letter_rows", "Dead-letter rows: rows missing in the target"),
                ],
                max_length=20,
            ),
        ),
        migrations.RunPython(forwards, backwards),
    ]
