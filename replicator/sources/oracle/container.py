"""The pluggable database, as its root shows it to the account.

V$ and GV$ views are container data objects: a common user in the root sees no rows of a pluggable database until its
CONTAINER_DATA says so.  Sources: Oracle Database Reference, "About Dynamic Performance Views"
(https://docs.oracle.com/database/122/REFRN/about-dynamic-performance-views.htm); Oracle Database Security Guide,
"Enabling Common Users to View CONTAINER_DATA Object Information"
(https://docs.oracle.com/en/database/oracle/oracle-database/19/dbseg/managing-commonly-and-locally-granted-privileges.html).
"""

from __future__ import annotations

from replicator.errors import SourceMisconfigured, SourcePermissionDenied, SourceUnreachable
from replicator.sources.oracle.config import OracleConfig
from replicator.sources.oracle.connection import Connection, read_rows
from replicator.sources.oracle.dialect import literal, quoted

ROOT = "CDB$ROOT"
_NO_VIEW = 942
_OLDEST = "SELECT MIN(start_scn) FROM gv$transaction WHERE start_scn > 0"


def container_data(config: OracleConfig) -> str:
    """SQL, for an administrator in the root."""
    return f"ALTER USER {quoted(config.watermark_owner)} SET CONTAINER_DATA = ALL CONTAINER = CURRENT;"


def open_mode(connection: Connection, config: OracleConfig) -> str:
    """V$PDBS.OPEN_MODE of the connection's pluggable database; `connection` is in the root.

    SourceMisconfigured where the account does not see it; SourcePermissionDenied where it may not read the view.
    """
    try:
        found = read_rows(connection, f"SELECT open_mode FROM v$pdbs WHERE name = {literal(config.pdb)}", config.where)
    except SourceUnreachable as error:
        if f"(error {_NO_VIEW})" not in error.message:
            raise
        grant = f"GRANT SELECT ON SYS.V_$PDBS TO {quoted(config.watermark_owner)} CONTAINER = ALL;"
        raise SourcePermissionDenied(f"{config.where}: the user cannot read v$pdbs.", remedy=grant) from None
    if not found:
        message = (
            f"{config.where}: the user does not see the pluggable database {config.pdb} from the root, nor which"
            " transactions are open there."
        )
        raise SourceMisconfigured(message, remedy=f"{container_data(config)} -- in {ROOT}")
    return str(found[0][0])


def oldest_transaction(connection: Connection, config: OracleConfig) -> int | None:
    """SCN at which the oldest open transaction began; None: none is open.

    Raises as `open_mode` does: rows of GV$TRANSACTION that are hidden would be taken for transactions that have ended.
    """
    if config.pdb:
        open_mode(connection, config)
    oldest = read_rows(connection, _OLDEST, config.where)[0][0]
    return int(oldest) if oldest else None
