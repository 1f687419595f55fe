import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("destinations", "0001_initial"),
        ("replicators", "0017_event_tokens"),
    ]

    operations = [
        migrations.AddField(
            model_name="replicator",
            name="destination",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.PROTECT, related_name="replicators", to="destinations.destination"
            ),
        ),
    ]
