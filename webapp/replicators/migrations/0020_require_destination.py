import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("replicators", "0019_fill_destinations")]

    operations = [
        migrations.AlterField(
            model_name="replicator",
            name="destination",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="replicators", to="destinations.destination"
            ),
        ),
        migrations.RemoveField(model_name="replicator", name="target_secrets"),
    ]
