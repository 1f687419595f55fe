from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("replicators", "0015_snapshot_plans"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="snapshotrun",
            index=models.Index(
                condition=models.Q(("state__in", ("planning", "reading"))), fields=["id"], name="run_open"
            ),
        ),
        migrations.AddIndex(
            model_name="chunkrow",
            index=models.Index(
                condition=models.Q(("state__in", ("planned", "reading", "read"))),
                fields=["run", "number"],
                name="chunk_open",
            ),
        ),
    ]
