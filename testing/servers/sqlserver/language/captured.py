"""cdc.fn_cdc_get_all_changes_<instance>, CHANGETABLE(CHANGES …) and their like, as functions that give rows, which keep
the columns' types.
"""

from __future__ import annotations

import re

from testing.servers.sqlserver.language.dialect import tokens
from testing.servers.sqlserver.language.names import ColumnName, Names, TableName
from testing.servers.sqlserver.refusals import Refusal

META = ("__$start_lsn", "__$seqval", "__$operation", "__$update_mask")
# What CHANGETABLE has beside the key, with a value of each's type.
SYSTEM = {
    "SYS_CHANGE_VERSION": "0::int8", "SYS_CHANGE_CREATION_VERSION": "0::int8",
    "SYS_CHANGE_OPERATION": "''::ss.\"nchar\"(1)", "SYS_CHANGE_COLUMNS": 'NULL::ss."varbinary"(4100)',
    "SYS_CHANGE_CONTEXT": 'NULL::ss."varbinary"(128)',
}  # fmt: skip
CHANGETABLE = "changetable"
_CHANGES = re.compile(r"\bCHANGETABLE\s*\(\s*CHANGES\s+((?:\[(?:[^\]]|\]\])*\]|[\w.])+)\s*,\s*", re.IGNORECASE)


def changes(names: Names, instance: str, *, net: bool) -> tuple[TableName, str]:
    """The change table, and the name of the set-returning function."""
    found = names.tables.get(("cdc", f"{instance}_ct".lower()))
    if found is None:
        raise Refusal(208, f"Invalid object name 'cdc.fn_cdc_get_{'net' if net else 'all'}_changes_{instance}'.")
    kind = "net" if net else "all"
    base = found.name.removesuffix("_CT").replace('"', '""')
    return found, f'cdc."fn_cdc_get_{kind}_changes_{base}"'


def spelled(sql: str) -> str:
    """CHANGETABLE(CHANGES t, v) as the call of a function with the table's name as a text, which the parser knows."""
    return _CHANGES.sub(lambda match: f"{CHANGETABLE}(N'{match[1].replace(chr(39), chr(39) * 2)}', ", sql)


def tracked(names: Names, given: str) -> tuple[TableName, str]:
    """The same of CHANGETABLE: its rows as a table.  given: the table's name as it was written."""
    table = names.table(*["", "", *(one.text for one in tokens(given) if one.text != ".")][-3:])
    system = {
        name.lower(): ColumnName(name, "?", -1, identity=False, computed=False, type="", collation="")
        for name in SYSTEM
    }
    return TableName("sys", CHANGETABLE, 0, system | table.columns), f"ss.changes_{table.oid}"
