"""An event trigger on the source that logs a table's definition at the position of the statement that changed it.

It is optional, because it needs a superuser (or the service's substitute).  Without it, definitions come from relation
messages and observations of the catalog (`relations`).  These are as exact, but tables are resnapshotted where several
statements follow each other faster than the log is read.

Any user who can connect may write such a message.  The trigger's messages are signed with a key that only the owner of
its function can read.  The signature covers the transaction, so that a message is of no use in another one.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from replicator.errors import LogCorrupt
from replicator.sources.postgres.catalog.describe_sql import document_sql
from replicator.sources.postgres.connection import Connection, read_rows
from replicator.sources.postgres.watermark import SCHEMA

PREFIX = "tidemark.ddl"
FUNCTION = f"{SCHEMA}.tell_definition"
KEY_TABLE = f"{SCHEMA}.ddl_key"
IS_KEY_TABLE = (
    f"n.nspname = '{SCHEMA}' AND c.relname = 'ddl_key'"  # to_regclass is refused where the schema is not ours to use
)
TRIGGERS = {"tidemark_ddl": "ddl_command_end", "tidemark_drop": "sql_drop"}

_WRAP, _SIGNATURE = 1 << 32, 32
# Bare names are the server's own, regardless of the session's search path.
_RIGHTS = "SECURITY DEFINER SET search_path = pg_catalog, pg_temp"

# It must never stand in the way of the statement: what goes wrong is a warning, and an observation will tell instead.
# The message is written outside of the block with the handler: from a subtransaction it would be decoded behind the
# rows that follow it (seen in 17).
BODY = f"""
DECLARE
  tables pg_catalog.oid[];
  gone pg_catalog.int8[];
  said pg_catalog.json;
  signed pg_catalog.bytea;
BEGIN
  BEGIN
    IF tg_event = 'sql_drop' THEN
      SELECT pg_catalog.array_agg(d.objid::pg_catalog.int8) INTO gone
        FROM pg_catalog.pg_event_trigger_dropped_objects() d
      WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objsubid = 0 AND d.object_type = 'table'
        AND NOT d.is_temporary;
      IF gone IS NOT NULL THEN
        said := pg_catalog.json_build_object('dropped', gone, 'relations', '[]'::pg_catalog.json,
          'types', '[]'::pg_catalog.json);
      END IF;
    ELSE
      SELECT pg_catalog.array_agg(DISTINCT c.oid) INTO tables FROM pg_catalog.pg_event_trigger_ddl_commands() e
        LEFT JOIN pg_catalog.pg_index x ON x.indexrelid = e.objid
        JOIN pg_catalog.pg_class c ON c.oid = COALESCE(x.indrelid, e.objid)
      WHERE e.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND c.relkind IN ('r', 'p')
        AND c.relpersistence <> 't';
      IF tables IS NOT NULL THEN
        said := ({document_sql("SELECT pg_catalog.unnest(tables)")});
      END IF;
    END IF;
    IF said IS NOT NULL THEN
      signed := pg_catalog.convert_to((pg_catalog.txid_current() % {_WRAP})::text || ' ' || said::text, 'UTF8');
      SELECT pg_catalog.sha256(k.key || pg_catalog.sha256(k.key || signed)) || signed INTO signed FROM {KEY_TABLE} k;
    END IF;
  EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'Tidemark could not log the definition after this statement: %', SQLERRM;
  END;
  IF signed IS NOT NULL THEN
    PERFORM pg_catalog.pg_logical_emit_message(true, '{PREFIX}', signed);
  END IF;
END
"""


# Made by the server, so that no statement, and no log of statements, has it.
_NEW_KEY = (
    "pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.gen_random_uuid()::text || pg_catalog.gen_random_uuid()::text,"
    " 'UTF8'))"
)


@dataclass(frozen=True)
class LoggedDefinition:
    """A message of the trigger: rows of `describe_sql.RELATIONS` and `TYPES`, and oids of tables that are gone."""

    relations: tuple[Mapping[str, Any], ...]
    types: tuple[Mapping[str, Any], ...]
    dropped: frozenset[int]


def create_statements() -> tuple[str, ...]:
    """SQL that makes function and triggers, or brings them up to date."""
    made = [
        f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}",
        f"CREATE TABLE IF NOT EXISTS {KEY_TABLE} (key pg_catalog.bytea NOT NULL)",
        f"REVOKE ALL ON {KEY_TABLE} FROM PUBLIC",
        f"INSERT INTO {KEY_TABLE} SELECT {_NEW_KEY} WHERE NOT EXISTS (SELECT FROM {KEY_TABLE})",
        (
            f"CREATE OR REPLACE FUNCTION {FUNCTION}() RETURNS pg_catalog.event_trigger LANGUAGE plpgsql {_RIGHTS} AS"
            f" $tidemark${BODY}$tidemark$"
        ),
    ]
    for name, event in TRIGGERS.items():
        made += [
            f"DROP EVENT TRIGGER IF EXISTS {name}",
            f"CREATE EVENT TRIGGER {name} ON {event} EXECUTE FUNCTION {FUNCTION}()",
        ]
    return tuple(made)


def drop_statements() -> tuple[str, ...]:
    """SQL that takes them away; no error where they are not there."""
    return (
        *(f"DROP EVENT TRIGGER IF EXISTS {name}" for name in TRIGGERS),
        f"DROP FUNCTION IF EXISTS {FUNCTION}()",
        f"DROP TABLE IF EXISTS {KEY_TABLE}",
    )


def read_key(connection: Connection, where: str) -> bytes | None:
    """Return the trigger's key; None if there is no trigger, or if we may not read its key."""
    readable = (
        "SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE"
        f" {IS_KEY_TABLE} AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_table_privilege(c.oid,"
        " 'SELECT')"
    )
    if not read_rows(connection, readable, where):
        return None
    rows = read_rows(connection, f"SELECT k.key FROM {KEY_TABLE} k", where)
    return bytes(rows[0][0]) if rows else None


def logged_definition(content: bytes, key: bytes | None, xid: int) -> LoggedDefinition | None:
    """None where the trigger has not written this, in this transaction.

    LogCorrupt where it has, and it cannot be read.
    """
    signature, signed = content[:_SIGNATURE], content[_SIGNATURE:]
    number, _, said = signed.partition(b" ")
    if key is None or number != str(xid).encode():
        return None
    expected = hashlib.sha256(key + hashlib.sha256(key + signed).digest()).digest()
    return _parsed(said) if hmac.compare_digest(signature, expected) else None


def _parsed(content: bytes) -> LoggedDefinition:
    try:
        said = json.loads(content)
        return LoggedDefinition(
            tuple(said["relations"]), tuple(said["types"]), frozenset(map(int, said.get("dropped") or ()))
        )
    except (ValueError, KeyError, TypeError) as error:
        raise LogCorrupt(f"A schema message of the event trigger is invalid: {error!r}") from error
