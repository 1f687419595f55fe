"""An event trigger on the source that writes a table's definition into the log, at the very place where a statement changed it.

Optional, for it takes a superuser (or the service's stand-in).  Without it definitions are told by relation messages and sights of the
catalog (`relations`): as exact, but where several statements follow each other faster than the log is read, tables are read again to be so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from replicator.errors import LogCorrupt
from replicator.sources.postgres.describe_sql import document_sql
from replicator.sources.postgres.watermark import SCHEMA

PREFIX = "tidemark.ddl"
FUNCTION = f"{SCHEMA}.tell_definition"
TRIGGERS = {"tidemark_ddl": "ddl_command_end", "tidemark_drop": "sql_drop"}

# It must never stand in the way of the statement: what goes wrong is a warning, and a sight will tell instead.  The message is written
# outside of the block with the handler: from a subtransaction it would be decoded behind the rows that follow it (seen in 17).
BODY = f"""
DECLARE
  tables pg_catalog.oid[];
  gone pg_catalog.int8[];
  said pg_catalog.json;
BEGIN
  BEGIN
    IF tg_event = 'sql_drop' THEN
      SELECT pg_catalog.array_agg(d.objid::pg_catalog.int8) INTO gone FROM pg_catalog.pg_event_trigger_dropped_objects() d
      WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objsubid = 0 AND d.object_type = 'table' AND NOT d.is_temporary;
      IF gone IS NOT NULL THEN
        said := pg_catalog.json_build_object('dropped', gone, 'relations', '[]'::pg_catalog.json, 'types', '[]'::pg_catalog.json);
      END IF;
    ELSE
      SELECT pg_catalog.array_agg(DISTINCT c.oid) INTO tables FROM pg_catalog.pg_event_trigger_ddl_commands() e
        LEFT JOIN pg_catalog.pg_index x ON x.indexrelid = e.objid
        JOIN pg_catalog.pg_class c ON c.oid = COALESCE(x.indrelid, e.objid)
      WHERE e.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't';
      IF tables IS NOT NULL THEN
        said := ({document_sql("SELECT pg_catalog.unnest(tables)")});
      END IF;
    END IF;
  EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'Tidemark could not tell this statement: %', SQLERRM;
  END;
  IF said IS NOT NULL THEN
    PERFORM pg_catalog.pg_logical_emit_message(true, '{PREFIX}', said::text);
  END IF;
END
"""


@dataclass(frozen=True)
class Told:
    """A message of the trigger: rows of `describe_sql.RELATIONS` and `TYPES`, and oids of tables that are gone."""

    relations: tuple[Mapping[str, Any], ...]
    types: tuple[Mapping[str, Any], ...]
    dropped: frozenset[int]


def create_statements() -> tuple[str, ...]:
    """SQL that makes function and triggers, or brings them up to date."""
    made = [
        f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}",
        f"GRANT USAGE ON SCHEMA {SCHEMA} TO PUBLIC",
        f"CREATE OR REPLACE FUNCTION {FUNCTION}() RETURNS pg_catalog.event_trigger LANGUAGE plpgsql SET search_path = '' AS $tidemark${BODY}$tidemark$",
    ]
    for name, event in TRIGGERS.items():
        made += [
            f"DROP EVENT TRIGGER IF EXISTS {name}",
            f"CREATE EVENT TRIGGER {name} ON {event} EXECUTE FUNCTION {FUNCTION}()",
        ]
    return tuple(made)


def drop_statements() -> tuple[str, ...]:
    """SQL that takes them away; no error where they are not there."""
    return (*(f"DROP EVENT TRIGGER IF EXISTS {name}" for name in TRIGGERS), f"DROP FUNCTION IF EXISTS {FUNCTION}()")


def told(content: bytes) -> Told:
    """LogCorrupt where it is no message of the trigger."""
    try:
        said = json.loads(content)
        return Told(tuple(said["relations"]), tuple(said["types"]), frozenset(map(int, said.get("dropped") or ())))
    except (ValueError, KeyError, TypeError) as error:
        raise LogCorrupt(f"A message with a table's definition cannot be read: {error!r}") from error
