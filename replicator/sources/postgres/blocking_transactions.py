"""Transactions of other sessions that something waits for: who they are, and the SQL that ends them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from replicator.errors import TableBusy
from replicator.model.identifiers import TableId
from replicator.sources.postgres.connection import Connection, literal, read_rows

_SHOWN = 3
# Modes that conflict with SHARE UPDATE EXCLUSIVE, which changes of a publication take; readers are held up by the last
# only.
_HOLDING = "'ShareUpdateExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'"
_SECONDS = "EXTRACT(epoch FROM pg_catalog.clock_timestamp() - {since})::int8"
_WRITING = f"""
SELECT x.gid, 0, x.database::text, 'prepared', {_SECONDS.format(since="x.prepared")} AS age
  FROM pg_catalog.pg_prepared_xacts x
UNION ALL
SELECT NULL, a.pid, a.datname::text, a.state, {_SECONDS.format(since="a.xact_start")} FROM pg_catalog.pg_stat_activity a
WHERE a.backend_xid IS NOT NULL AND a.pid <> pg_catalog.pg_backend_pid() ORDER BY age DESC NULLS LAST
"""
_LOCKS = f"""
SELECT n.nspname::text, c.relname::text, x.gid, COALESCE(l.pid, 0), pg_catalog.current_database()::text,
  CASE WHEN x.gid IS NOT NULL THEN 'prepared' WHEN a.backend_type = 'autovacuum worker' THEN a.backend_type
    ELSE a.state END, {_SECONDS.format(since="COALESCE(a.xact_start, x.prepared)")}
FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class c ON c.oid = l.relation
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
  LEFT JOIN pg_catalog.pg_prepared_xacts x ON l.pid IS NULL AND l.virtualtransaction = '-1/' || x.transaction::text
WHERE l.locktype = 'relation' AND l.granted AND l.mode IN ({_HOLDING}) AND l.pid IS DISTINCT
  FROM pg_catalog.pg_backend_pid()
  AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
ORDER BY l.pid
"""


@dataclass(frozen=True, slots=True)
class Holder:
    """`gid`: of a prepared transaction, which has no session; else `pid`.

    `seconds`: since it began, where the user may see that.
    """

    gid: str | None
    pid: int
    database: str | None
    state: str | None
    seconds: int | None

    def __str__(self) -> str:
        who = f"the prepared transaction {self.gid}" if self.gid is not None else f"pid {self.pid}"
        about = [f"database {self.database}" if self.database else "", "" if self.gid is not None else self.state or ""]
        about.append("" if self.seconds is None else f"{self.seconds} s")
        return f"{who} ({', '.join(part for part in about if part)})"

    @property
    def gives_way(self) -> bool:
        """May it be an autovacuum, which ends once another session has waited for it for a second?

        Not every role may see that.
        """
        return self.gid is None and self.state in {None, "autovacuum worker"}

    @property
    def ending(self) -> str:
        """SQL."""
        if self.gid is not None:
            return f"ROLLBACK PREPARED {literal(self.gid)}; -- or COMMIT PREPARED, in the database {self.database}"
        return f"SELECT pg_terminate_backend({self.pid});"


def writing(connection: Connection, where: str) -> list[Holder]:
    """Open transactions of all databases that have written, the oldest first: what a new slot waits for."""
    return [Holder(*row) for row in read_rows(connection, _WRITING, where)]


def lock_holders(connection: Connection, where: str) -> dict[TableId, list[Holder]]:
    """Of the tables of this database that are locked so that they cannot be published, or not even read."""
    found: dict[TableId, list[Holder]] = {}
    for schema, name, *holder in read_rows(connection, _LOCKS, where):
        found.setdefault(TableId(schema, name), []).append(Holder(*holder))
    return found


def listed(holders: Sequence[Holder]) -> str:
    """As people read them."""
    more = f" and {len(holders) - _SHOWN} more" if len(holders) > _SHOWN else ""
    return ", ".join(map(str, holders[:_SHOWN])) + more


def endings(holders: Iterable[Holder]) -> str:
    """SQL that ends them."""
    return "\n".join(one.ending for one in [*holders][:_SHOWN])


def locked_by(table: TableId, holders: Sequence[Holder]) -> TableBusy:
    """`holders`: of its locks; none are left where they have just gone."""
    who = f"a lock held by {listed(holders)}" if holders else "a lock of another session"
    more = f" SQL that ends it:\n{endings(holders)}" if holders else ""
    message = f"{table} waits for {who}; the other tables continue."
    return TableBusy(message, table=str(table), remedy=f"{TableBusy.default_remedy}{more}")
