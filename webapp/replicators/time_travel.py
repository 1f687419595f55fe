"""How far back the copy of a table can be read in the target, and how many bytes wait to be deleted."""

from __future__ import annotations

from django.conf import settings
from django.db import connection

from replicator.errors import StagingError
from replicator.targets.iceberg.upkeep.readable_history import Readable, readable
from webapp.replicators.models import ReplicatorTable


def past_of(table: ReplicatorTable) -> Readable | None:
    """None where the target has no such table, or is no lake, or its files cannot be read now."""
    query = "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = %s AND table_name = %s"
    with connection.cursor() as cursor:
        cursor.execute(query, [table.target_namespace, table.target_name])
        found = cursor.fetchone()
    if found is None or not table.made_load:
        return None
    _, mark, options = settings.TIDEMARK_WAREHOUSE_URL.partition("?")
    try:
        return readable(found[0], mark + options)
    except StagingError:
        return None
