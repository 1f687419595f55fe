"""Postgres' errors as Oracle's."""

from __future__ import annotations

import psycopg

from testing.servers.oracle.engine.catalog import Catalog
from testing.servers.oracle.engine.errors import TEXTS, OracleError

CODES = {
    "57014": (1013,), "55P03": (54,), "40P01": (60,), "40001": (8177,), "22012": (1476,), "22P02": (1722,),
    "22003": (1426,), "23502": (1400,), "42501": (1031,), "22023": (1722,),
}  # fmt: skip
STALE = frozenset({"42P01", "42703"})  # the statement was translated before a definition


def refused(error: psycopg.Error, catalog: Catalog) -> OracleError:
    """What Oracle says of it; what has no such word is an internal error, ORA-00600, with Postgres' text."""
    code = error.sqlstate or ""
    diagnosis = error.diag
    if code == "OR000":
        number, _, words = (diagnosis.message_primary or "").partition(" ")
        return OracleError(int(number), words) if "{}" in TEXTS[int(number)] else OracleError(int(number))
    if code in ("23505", "23503", "23514"):
        found = catalog.constraint(diagnosis.constraint_name or "")
        shown = f"{found[0].owner}.{found[1].name}" if found else str(diagnosis.constraint_name)
        if code == "23503":
            parent = "is still referenced" in (diagnosis.message_detail or "")
            return OracleError(2292 if parent else 2291, shown)
        return OracleError(1 if code == "23505" else 2290, shown)
    if code == "23502":
        table = catalog.of_object(int((diagnosis.table_name or "t0")[1:]))
        column = next((one for one in table.columns if f"c{one.id}" == diagnosis.column_name), None) if table else None
        return OracleError(1400, f'"{table.owner}"."{table.name}"."{column.name}"' if table and column else "")
    if code in CODES:
        return OracleError(*CODES[code])
    return OracleError(600, f"{code} {diagnosis.message_primary}")
