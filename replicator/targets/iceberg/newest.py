"""The newest metadata file in a table's folder: what a catalog names that was restored from a backup is older, or gone."""

from __future__ import annotations

import re

from replicator.targets.iceberg.catalog import LakeTable
from replicator.targets.iceberg.waiting import listed

_NAME = re.compile(r"(\d+)-[0-9a-f-]+(\.gz)?\.metadata\.json")


def newest_metadata(table: LakeTable) -> str | None:
    """The file with the highest version, of two the one that was changed last; None where there is none of this table's."""
    found: dict[int, list[str]] = {}
    for uri in listed(table, f"{table.metadata['location'].rstrip('/')}/metadata"):
        if name := _NAME.fullmatch(uri.rpartition("/")[2]):
            found.setdefault(int(name[1]), []).append(uri)
    io, parser = table.handle.io(), table.engine.java("org.apache.iceberg.TableMetadataParser")
    for version in sorted(found, reverse=True):
        read = [(parser.read(io.newInputFile(uri)), uri) for uri in found[version]]
        ours = [(base.lastUpdatedMillis(), uri) for base, uri in read if base.uuid() == table.uuid]
        if ours:
            return max(ours)[1]
    return None
