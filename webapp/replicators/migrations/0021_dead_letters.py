"""`parked` becomes `dead_letters`."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("replicators", "0020_require_destination")]
    operations = [migrations.RenameField("replicatortable", "parked", "dead_letters")]
