from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("replicators", "0013_snapshot_parts"),
    ]

    operations = [
        migrations.AddField(
            model_name="replicator",
            name="target_secrets",
            field=models.TextField(blank=True, default="", editable=False),
            preserve_default=False,
        ),
    ]
