"""cdc.fn_cdc_get_all_changes_<instance> and its like, as sub-selects, which keep the columns' types."""

from __future__ import annotations

from testing.servers.sqlserver.language.names import Names, TableName
from testing.servers.sqlserver.refusals import Refusal

META = ("__$start_lsn", "__$seqval", "__$operation", "__$update_mask")


def changes(names: Names, instance: str, *, net: bool) -> tuple[TableName, str]:
    """The change table, and the name of the set-returning function."""
    found = names.tables.get(("cdc", f"{instance}_ct".lower()))
    if found is None:
        raise Refusal(208, f"Invalid object name 'cdc.fn_cdc_get_{'net' if net else 'all'}_changes_{instance}'.")
    kind = "net" if net else "all"
    base = found.name.removesuffix("_CT").replace('"', '""')
    return found, f'cdc."fn_cdc_get_{kind}_changes_{base}"'
