"""The two tables of Iceberg's JDBC catalog, as Iceberg 1.12 makes them (`JdbcUtil`, schema version V1).

Iceberg makes them itself at first use, but not when two processes begin at once: one of them fails.
"""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("worker", "0001_initial")]

    operations = [
        migrations.RunSQL(
            [
                "CREATE TABLE IF NOT EXISTS iceberg_tables (catalog_name VARCHAR(255) NOT NULL, "
                "table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000), "
                "previous_metadata_location VARCHAR(1000), PRIMARY KEY (catalog_name, table_namespace, table_name))",
                "ALTER TABLE iceberg_tables ADD COLUMN IF NOT EXISTS iceberg_type VARCHAR(5)",
                "CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (catalog_name VARCHAR(255) NOT NULL, "
                "namespace VARCHAR(255) NOT NULL, property_key VARCHAR(255), property_value VARCHAR(1000), "
                "PRIMARY KEY (catalog_name, namespace, property_key))",
            ],
            migrations.RunSQL.noop,  # the lake's tables would be lost to it
        )
    ]
