"""A copy of tables in SQLite, kept by a stream: python stream_client.py URL TOKEN STREAM GROUP COPY.db

A batch is stored in one transaction and acked after it.  What comes twice does no harm: positions only grow in a shard,
and the last one is stored with the rows.  Several of these with the same GROUP, each with a file of its own, split the
shards between them.

The file of `replicator/streams/client.py` beside this one is all it needs.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from typing import Any

try:
    from client import Batch, Client, Consumer
except ImportError:
    from replicator.streams.client import Batch, Client, Consumer

TABLES = """
CREATE TABLE IF NOT EXISTS kept (
  shard INTEGER, tbl TEXT, key TEXT, sequence INTEGER, gone INTEGER, row TEXT, PRIMARY KEY (shard, tbl, key));
CREATE TABLE IF NOT EXISTS keyless (tbl TEXT, row TEXT, sequence INTEGER);
CREATE TABLE IF NOT EXISTS done (shard INTEGER PRIMARY KEY, position TEXT);
"""
EMPTIES = {"LOAD", "CREATE_TABLE", "TRUNCATE_TABLE", "DROP_TABLE"}


class Copy:
    """Tables by name.  A key's row and the sequence number of what made it, or took it away, are kept."""

    def __init__(self, path: str) -> None:
        """Made if it is not there."""
        self.sql = sqlite3.connect(path)
        self.sql.executescript(TABLES)

    def store(self, batch: Batch) -> None:
        """All of it or nothing; nothing that was stored before."""
        known = self.sql.execute("SELECT position FROM done WHERE shard = ?", [batch.shard]).fetchone()
        done = json.loads(known[0]) if known else [-1, 0]
        with self.sql:
            for change in batch.changes:
                if change["position"] > done:
                    self._take(batch.shard, change)
            last = batch.changes[-1]["position"] if batch.changes else done
            self.sql.execute("INSERT OR REPLACE INTO done VALUES (?, ?)", [batch.shard, json.dumps(max(last, done))])

    def rows(self, database: str, table: str) -> list[dict[str, Any]]:
        """What the table has now."""
        name = json.dumps([database, table])
        kept = self.sql.execute("SELECT row FROM kept WHERE tbl = ? AND NOT gone", [name])
        more = self.sql.execute("SELECT row FROM keyless WHERE tbl = ?", [name])
        return [json.loads(row) for (row,) in (*kept, *more)]

    def _take(self, shard: int, change: dict[str, Any]) -> None:
        name = json.dumps([change["database"], change["table"]])
        if "key" not in change:
            self._event(shard, name, change)
        elif change["key"]:
            self._keyed(shard, name, change)
        else:
            self._keyless(name, change)

    def _keyed(self, shard: int, name: str, change: dict[str, Any]) -> None:
        image = change.get("after") or change["before"]
        key = json.dumps([image[column] for column in change["key"]])
        known = self.sql.execute(
            "SELECT sequence, gone, row FROM kept WHERE (shard, tbl, key) = (?, ?, ?)", [shard, name, key]
        ).fetchone()
        if known and known[0] > change["sequence"]:
            return  # it came before
        row = dict(change.get("after") or {})
        if known and not known[1]:  # what an UPDATE left out (Postgres, large values) stays
            row |= {column: json.loads(known[2]).get(column) for column in change.get("unchanged", ())}
        values = [shard, name, key, change["sequence"], change["operation"] == "DELETE", json.dumps(row)]
        self.sql.execute("INSERT OR REPLACE INTO kept VALUES (?, ?, ?, ?, ?, ?)", values)

    def _keyless(self, name: str, change: dict[str, Any]) -> None:
        """One of equal rows for each DELETE."""
        if change["operation"] == "DELETE":
            row = json.dumps(change["before"], sort_keys=True)
            self.sql.execute(
                "DELETE FROM keyless WHERE rowid = (SELECT max(rowid) FROM keyless WHERE (tbl, row) = (?, ?))",
                [name, row],
            )
        else:
            row = json.dumps(change["after"], sort_keys=True)
            self.sql.execute("INSERT INTO keyless VALUES (?, ?, ?)", [name, row, change["sequence"]])

    def _event(self, shard: int, name: str, event: dict[str, Any]) -> None:
        """Of the rows of this shard only: the others have the event, too."""
        kind = event["operation"]
        if kind in EMPTIES or kind == "SWEEP":
            below = event.get("below", event["sequence"])
            self.sql.execute("DELETE FROM kept WHERE shard = ? AND tbl = ? AND sequence < ?", [shard, name, below])
        if kind in EMPTIES and shard == 0:  # where rows without key are
            self.sql.execute("DELETE FROM keyless WHERE tbl = ?", [name])
        if kind == "RENAME_TABLE":
            new = json.dumps(event["new"])
            self._event(shard, new, event | {"operation": "DROP_TABLE"})  # another that had the name is gone by then
            self.sql.execute("UPDATE kept SET tbl = ? WHERE shard = ? AND tbl = ?", [new, shard, name])
            if shard == 0:
                self.sql.execute("UPDATE keyless SET tbl = ? WHERE tbl = ?", [new, name])
        if kind == "ALTER_TABLE":
            self._columns(shard, name, event)

    def _columns(self, shard: int, name: str, event: dict[str, Any]) -> None:
        """Rows get the columns that the table has now; a new one's value comes with the rows if it is not null."""
        if "schema" not in event:
            return
        renamed = {new: old for old, new in event.get("renamed_columns", {}).items()}
        names = [column["name"] for column in event["schema"]["columns"]]
        for table, where in (("kept", "shard = ? AND tbl = ?"), ("keyless", "? = 0 AND tbl = ?")):
            for rowid, text in self.sql.execute(
                f"SELECT rowid, row FROM {table} WHERE {where}", [shard, name]
            ).fetchall():
                old = json.loads(text)
                row = {column: old.get(renamed.get(column, column)) for column in names}
                self.sql.execute(
                    f"UPDATE {table} SET row = ? WHERE rowid = ?",
                    [json.dumps(row, sort_keys=table == "keyless"), rowid],
                )


def follow(client: Client, stream: str, group: str, copy: Copy, **how: Any) -> None:
    """Until it is ended."""
    with Consumer(client, stream, group=group, **how) as consumer:
        for batch in consumer:
            copy.store(batch)
            consumer.ack(batch)


if __name__ == "__main__":
    address, token, stream, group, path = sys.argv[1:]
    follow(Client(address, token), stream, group, Copy(path))
