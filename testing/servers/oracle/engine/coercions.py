"""How a value of one type stands in for one of another: what Oracle converts by itself (SQL Language Reference, "Data
Conversion"), in the forms of `kinds`.
"""

from __future__ import annotations

from testing.servers.oracle.engine import nls
from testing.servers.oracle.engine.errors import OracleError, unsupported
from testing.servers.oracle.engine.kinds import DATETIMES, LOCAL, NUMBERS, TEXTS, ZONED, Kind

FLOATS = ("BINARY_FLOAT", "BINARY_DOUBLE")


def assigned(sql: str, given: Kind | None, wanted: Kind, zone: str, literal: str | None = None) -> str:
    """`sql`, of the kind `given`, as a column of the kind `wanted` takes it.  zone: the session's."""
    if given is None:
        return sql
    made = _converted(sql, given.name, wanted.name, zone, literal)
    if made is None:
        raise OracleError(932, f"expected {wanted.name} got {given.name}")
    return made


def _converted(sql: str, given: str, wanted: str, zone: str, literal: str | None) -> str | None:  # noqa: PLR0911
    if wanted in TEXTS:
        if given == "NUMBER" or given == "FLOAT":
            return f"ora.num_char({sql})"
        if given in TEXTS:
            return padded(sql) if given in ("CHAR", "NCHAR") and wanted not in ("CHAR", "NCHAR") else sql
        return f"({sql})::text" if given in FLOATS else sql if given in ("ROWID", "UROWID") else None
    if wanted == "INT":
        return f"({sql})::int" if given in NUMBERS else None
    if wanted in NUMBERS:
        form = {"BINARY_FLOAT": "real", "BINARY_DOUBLE": "double precision"}.get(wanted, "numeric")
        if given in TEXTS:
            return f"({sql})::{form}"
        if given in NUMBERS:
            return sql if (given in FLOATS) == (wanted in FLOATS) and given == wanted else f"({sql})::{form}"
        return None
    if wanted in DATETIMES:
        return _datetime(sql, given, wanted, zone) if given in DATETIMES else None
    if wanted in ("RAW", "LONG RAW", "BLOB"):
        if given in TEXTS:
            return f"decode({sql}, 'hex')"
        return sql if given in ("RAW", "LONG RAW", "BLOB") else None
    if wanted in ("ROWID", "UROWID"):
        return sql if given in TEXTS or given in ("ROWID", "UROWID") else None
    del literal
    return sql if given == wanted else None


def padded(sql: str) -> str:
    """The text of a CHAR with its blanks, which Postgres leaves out of a cast."""
    return f"textin(bpcharout({sql}))"


def _datetime(sql: str, given: str, wanted: str, zone: str) -> str:
    if given == wanted:
        return sql
    offset = f"interval '{int(nls.offset(zone).total_seconds())} seconds'"
    back = f"interval '{-int(nls.offset(zone).total_seconds())} seconds'"
    # first to the session's local time, then to what is wanted
    local = {
        "DATE": f"ora.date_ts({sql})", "TIMESTAMP": sql, ZONED: f"ora.local({sql})", LOCAL: f"ora.shift({sql}, {offset})",
    }[given]  # fmt: skip
    if wanted == "DATE":
        return f"ora.ts_date({local})"
    if wanted == "TIMESTAMP":
        return local
    utc = f"split_part({sql}, '|', 1)" if given == ZONED else sql if given == LOCAL else f"ora.shift({local}, {back})"
    return utc if wanted == LOCAL else f"{utc} || '|{zone}'"


def compared(sql: str, own: Kind | None, other: Kind | None, zone: str, literal: str | None = None) -> str:
    """`sql`, of the kind `own`, in the form in which it is compared with the kind `other`."""
    if own is None:
        return sql
    if other is None or own.name == other.name:
        return f"split_part({sql}, '|', 1)" if own.name == ZONED else sql
    names = {own.name, other.name}
    if names <= DATETIMES:
        common = LOCAL if names & {ZONED, LOCAL} else "TIMESTAMP"
        return _datetime(sql, own.name, common, zone)
    if names <= NUMBERS:
        return f"({sql})::double precision" if names & {*FLOATS} else sql
    if names <= TEXTS:
        return sql
    if own.name in TEXTS and other.name in (*NUMBERS, "RAW", "ROWID", "UROWID"):
        return assigned(sql, own, other, zone, literal)
    if other.name in TEXTS and own.name in (*NUMBERS, "RAW", "ROWID", "UROWID"):
        return sql
    if names <= {"ROWID", "UROWID"}:
        return sql
    raise unsupported(f"a comparison of {own.name} with {other.name}")
