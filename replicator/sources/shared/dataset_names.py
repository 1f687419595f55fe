"""How lineage tools name a source's tables: openlineage.io/docs/spec/naming."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replicator.model.identifiers import TableId


def server_dataset(scheme: str, config: Mapping[str, Any], table: TableId) -> tuple[str, str]:
    """`scheme://host:port`, without credentials, and `database.table`."""
    return f"{scheme}://{config.get('host', 'localhost')}:{config.get('port', '')}".rstrip(":"), str(table)


def dataset_within(scheme: str, above: str, config: Mapping[str, Any], table: TableId) -> tuple[str, str]:
    """The same, with what the schema lies in before it; `above` may be empty."""
    namespace, name = server_dataset(scheme, config, table)
    return namespace, f"{above}.{name}" if above else name
