from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('replicators', '0002_replicatortable_reload_again'),
    ]

    operations = [
        migrations.AddField(
            model_name='replicator',
            name='leave_source_on_delete',
            field=models.BooleanField(default=False),
        ),
    ]
