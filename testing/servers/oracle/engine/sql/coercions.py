"""Oracle's implicit conversions between types (SQL Language Reference, "Data Conversion"), in the representations of
`kinds`.
"""

from __future__ import annotations

from testing.servers.oracle.engine import nls
from testing.servers.oracle.engine.errors import OracleError, unsupported
from testing.servers.oracle.engine.kinds import DATETIMES, LOCAL, NUMBERS, TEXTS, ZONED, Kind

FLOATS = ("BINARY_FLOAT", "BINARY_DOUBLE")
CHARS, BYTES, ROWIDS = ("CHAR", "NCHAR"), ("RAW", "LONG RAW", "BLOB"), ("ROWID", "UROWID")


def assigned(sql: str, given: Kind | None, wanted: Kind, zone: str) -> str:
    """`sql`, of the kind `given`, as a column of the kind `wanted` takes it.  zone: the session's."""
    if given is None:
        return sql
    made = _converted(sql, given.name, wanted.name, zone)
    if made is None:
        raise OracleError(932, f"expected {wanted.name} got {given.name}")
    return made


def _converted(sql: str, given: str, wanted: str, zone: str) -> str | None:
    """None where Oracle converts nothing."""
    made = sql if given == wanted else None
    if wanted in TEXTS:
        made = _text(sql, given, wanted)
    elif wanted == "INT" or wanted in NUMBERS:
        form = {"BINARY_FLOAT": "real", "BINARY_DOUBLE": "double precision", "INT": "int"}.get(wanted, "numeric")
        plain = {given, wanted} <= {"NUMBER", "FLOAT"} or given == wanted
        made = sql if plain else f"({sql})::{form}" if given in TEXTS or given in NUMBERS else None
    elif wanted in DATETIMES and given in DATETIMES:
        made = _datetime(sql, given, wanted, zone)
    elif wanted in BYTES and (given in TEXTS or given in BYTES):
        made = f"decode({sql}, 'hex')" if given in TEXTS else sql
    elif wanted in ROWIDS and (given in TEXTS or given in ROWIDS):
        made = sql
    return made


def _text(sql: str, given: str, wanted: str) -> str | None:
    if given in ("NUMBER", "FLOAT"):
        return f"ora.num_char({sql})"
    if given in TEXTS:
        return padded(sql) if given in CHARS and wanted not in CHARS else sql
    return f"({sql})::text" if given in FLOATS else sql if given in ROWIDS else None


def padded(sql: str) -> str:
    """The text of a CHAR with its blanks, which Postgres leaves out of a cast."""
    return f"textin(bpcharout({sql}))"


def _datetime(sql: str, given: str, wanted: str, zone: str) -> str:
    if given == wanted:
        return sql
    offset = f"interval '{int(nls.offset(zone).total_seconds())} seconds'"
    back = f"interval '{-int(nls.offset(zone).total_seconds())} seconds'"
    local = sql  # first to the session's local time, then to what is wanted
    if given in ("DATE", ZONED):
        local = f"ora.date_ts({sql})" if given == "DATE" else f"ora.local({sql})"
    elif given == LOCAL:
        local = f"ora.shift({sql}, {offset})"
    if wanted == "DATE":
        return f"ora.ts_date({local})"
    if wanted == "TIMESTAMP":
        return local
    utc = f"split_part({sql}, '|', 1)" if given == ZONED else sql if given == LOCAL else f"ora.shift({local}, {back})"
    return utc if wanted == LOCAL else f"{utc} || '|{zone}'"


def compared(sql: str, own: Kind | None, other: Kind | None, zone: str) -> str:
    """`sql`, of the kind `own`, in the form in which it is compared with the kind `other`."""
    if own is None or other is None or own.name == other.name:
        return f"split_part({sql}, '|', 1)" if own and own.name == ZONED else sql
    names, made = {own.name, other.name}, None
    if names <= DATETIMES:
        made = _datetime(sql, own.name, LOCAL if names & {ZONED, LOCAL} else "TIMESTAMP", zone)
    elif names <= NUMBERS:
        made = f"({sql})::double precision" if names & {*FLOATS} else sql
    elif names <= TEXTS or names <= {*ROWIDS}:
        made = sql
    elif (text := names & TEXTS) and names - text <= {*NUMBERS, "RAW", *ROWIDS}:
        made = assigned(sql, own, other, zone) if own.name in TEXTS else sql
    if made is None:
        raise unsupported(f"a comparison of {own.name} with {other.name}")
    return made
