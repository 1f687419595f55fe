"""What stands beside tables and must not disturb: triggers, views, sequences; refused tables; transactions in two
phases.
"""

from __future__ import annotations

from dataclasses import replace

from testing.workload.changes import bulk
from testing.workload.keys import KeyModel
from testing.workload.model import Operation, SchemaDraft
from testing.workload.postgres import keys
from testing.workload.postgres.schemas import SchemaMaker
from testing.workload.postgres.schemas import TableModel as PostgresTable
from testing.workload.postgres.tables import ASIDE
from testing.workload.postgres.values.kinds import PostgresKind
from testing.workload.postgres.values.rng_literals import names, quoted
from testing.workload.schemas import ColumnModel, Statements, TableModel

ENOUGH = 3  # tables, so that the others still stream when one is refused
EXTENSIONS = ("hstore", "citext", "ltree")


def prelude(draft: SchemaDraft) -> Statements:
    """Extensions, in the schema that every session's path ends with, a schema that is not selected, and the history's
    types.
    """
    assert isinstance(draft.maker, SchemaMaker)
    extensions = (f"CREATE EXTENSION IF NOT EXISTS {name} SCHEMA public" for name in EXTENSIONS)
    aside = f"CREATE SCHEMA IF NOT EXISTS {quoted(ASIDE)}"
    return (*extensions, aside, *keys.PRELUDE, *draft.maker.types.created)


def trigger(draft: SchemaDraft, table: TableModel) -> Statements:
    """A trigger: each changed row adds a row to a new audit table, in the same statement."""
    pen, maker = draft.pen, draft.maker
    number = ColumnModel(
        maker.name("id", odd=0), PostgresKind("integer"), nullable=False, number="plain", extra=keys.IDENTITY
    )
    columns = (number, ColumnModel(maker.name("what", odd=0), PostgresKind("varchar", 20)))
    audit = replace(maker.model(maker.name("audit"), columns, KeyModel("identity", (number.name,))), fixed=True)
    draft.keep(audit)
    event, name = pen.choice(("INSERT", "UPDATE", "DELETE")), quoted(maker.name("audited", odd=0))
    action = f"INSERT INTO {audit.sql} ({quoted(columns[1].name)}) VALUES (TG_OP); RETURN NULL;"
    return (
        *audit.created(),
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN {action} END $f$",
        f"CREATE TRIGGER {name} AFTER {event} ON {table.sql} FOR EACH ROW EXECUTE FUNCTION {name}()",
    )


def view(draft: SchemaDraft, table: TableModel) -> Statements:
    """It follows its table's names; what it needs cannot be dropped, or goes with a CASCADE."""
    what = draft.pen.choice(("VIEW", "VIEW", "MATERIALIZED VIEW"))
    name = quoted(draft.maker.name("view", odd=0.3))
    return (f"CREATE {what} {name} AS SELECT {names([column.name for column in table.columns[:1]])} FROM {table.sql}",)


def sequence(draft: SchemaDraft, _table: TableModel) -> Statements:
    """A sequence, whose changes are in the log but belong to no table."""
    name = draft.maker.name("sequence", odd=0.2)
    draft.sequences.append(name)
    return (f"CREATE SEQUENCE {quoted(name)} CACHE {draft.pen.choice((1, 3, 1000))}",)


def next_value(draft: SchemaDraft, _table: TableModel) -> Statements | None:
    """Rows of the log that belong to no table."""
    if not draft.sequences:
        return None
    name = f"'{quoted(draft.pen.choice(draft.sequences)).replace(chr(39), chr(39) * 2)}'"
    return (draft.pen.choice((f"SELECT nextval({name})", f"SELECT setval({name}, {draft.pen.randint(1, 10**6)})")),)


# What a program that knows Tidemark could write, as SQL: that all tables were dropped, and marks of chunks.
_ALL_DROPPED = (
    "(SELECT json_build_object('dropped', json_agg(oid::int8), 'relations', '[]'::json, 'types', '[]'::json)::text FROM"
    " pg_class WHERE relnamespace = quote_ident(current_schema())::regnamespace AND relkind IN ('r', 'p'))"
)
_FORGED = (
    "'words'",
    _ALL_DROPPED,
    "repeat('x', 100000)",
    "'{}'",
    *(f"current_schema() || '|{kind}:1:1:a'" for kind in "LOH"),
)


def message(draft: SchemaDraft, _table: TableModel) -> Statements:
    """Messages of other programs in the log, some of them forgeries of Tidemark's: any user may write any message."""
    kept = draft.pen.choice(("true", "true", "false"))
    prefix, words = draft.pen.choice(("other", "tidemark ", "tidemark", "tidemark.ddl")), draft.pen.choice(_FORGED)
    draft.used["forged message"] += prefix in {"tidemark", "tidemark.ddl"}
    return (f"SELECT pg_logical_emit_message({kept}, '{prefix}', {words})",)


def republish(draft: SchemaDraft, table: TableModel) -> Statements:
    """Another program drops a table from the publication, changes its rows, and adds it back after 0 to 3 seconds.

    A table that was not in the publication is not added.
    """
    draft.used["published anew"] += 1
    name = table.sql.replace("'", "''")
    out, back = (
        f"DO $tamper$ DECLARE p name; BEGIN SELECT pubname INTO STRICT p FROM pg_publication; {before} EXECUTE"
        f" format('ALTER PUBLICATION %I {verb} TABLE %s', p, '{name}'); {after} EXCEPTION WHEN OTHERS THEN NULL; END"
        " $tamper$"
        for before, verb, after in (
            (
                "PERFORM set_config('history.out', 'no', false);",
                "DROP",
                "PERFORM set_config('history.out', 'yes', false);",
            ),
            ("IF current_setting('history.out', true) IS DISTINCT FROM 'yes' THEN RETURN; END IF;", "ADD", ""),
        )
    )
    return (out, bulk(draft, table, 3), f"SELECT pg_sleep({draft.pen.choice((0, 0, 0.5, 3))})", back)


def inherit(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """A table gets a child while it is followed: both are refused from then on, alone."""
    others = [one for one in draft.tables.values() if not (one.refused or one.fixed)]
    if not isinstance(table, PostgresTable) or table.parts or table.constraints or len(others) < ENOUGH:
        return None
    referred = any(table.sql in " ".join(one.constraints) for one in draft.tables.values())
    if referred or table.fixed or any(column.generated for column in table.columns):
        return None
    parent = replace(table, fixed=True, refused=True)
    child = replace(parent, name=f"{draft.maker.name('heir', odd=0)} child")
    draft.keep(parent)
    draft.keep(child)
    return (f"CREATE TABLE {child.sql} (d integer) INHERITS ({table.sql})", bulk(draft, child, 10))


SURROUNDINGS: dict[str, tuple[int, Operation]] = {
    "trigger": (2, trigger), "view": (2, view), "sequence": (2, sequence), "message": (4, message),
    "republish": (3, republish), "inherit": (2, inherit),
}  # fmt: skip
SEQUENCES: dict[str, tuple[int, Operation]] = {"next value": (1, next_value)}


def prepared(draft: SchemaDraft, statements: Statements, name: str) -> Statements:
    """The statements as a transaction in two phases."""
    draft.used["xa"] += 1
    end = draft.pen.choice(("COMMIT", "COMMIT", "ROLLBACK"))
    draft.used[f"{end.lower()} prepared"] += 1
    return (f"BEGIN /* '{name}' */", *statements, f"PREPARE TRANSACTION '{name}'", f"{end} PREPARED '{name}'")


def refused(draft: SchemaDraft) -> Statements:
    """A table that a replicator must refuse, alone: without a replica identity, or one of which the log shows
    nothing.
    """
    draft.used["refused table"] += 1
    name, key = draft.maker.name("refused", odd=0), KeyModel("int", ("id",))
    columns = (
        ColumnModel("id", PostgresKind("integer"), nullable=False, number="plain"),
        ColumnModel("c", PostgresKind("varchar", 20)),
    )
    table = draft.maker.model(name, columns, key)
    assert isinstance(table, PostgresTable)
    more: Statements = ()
    match draft.pen.choice(("no identity", "nothing", "unlogged", "inherits")):
        case "no identity":
            table = replace(table, key=KeyModel("none"))
        case "nothing":
            more = (f"ALTER TABLE {table.sql} REPLICA IDENTITY NOTHING",)
        case "unlogged":
            table = replace(table, unlogged=True)
        case _:
            child = replace(table, name=f"{name} child", fixed=True, refused=True)
            more = (f"CREATE TABLE {child.sql} (d integer, PRIMARY KEY (id)) INHERITS ({table.sql})",)
            draft.keep(child)
    table = replace(table, fixed=True, refused=True)
    draft.keep(table)
    return (*table.created(), *more, bulk(draft, table, 20))
