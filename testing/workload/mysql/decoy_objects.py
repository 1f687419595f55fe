"""What stands beside tables in a database and must not disturb: triggers, views, sequences; and XA transactions."""

from __future__ import annotations

from dataclasses import replace

from testing.workload.changes import bulk
from testing.workload.keys import KeyModel
from testing.workload.model import Operation, SchemaDraft
from testing.workload.mysql.kinds import MySQLKind
from testing.workload.mysql.rng_literals import names, quoted
from testing.workload.schemas import ColumnModel, Statements, TableModel

UNSELECTED = "unselected"


def trigger(draft: SchemaDraft, table: TableModel) -> Statements:
    """A trigger: each changed row adds a row to a new audit table, in the same statement."""
    pen, maker = draft.pen, draft.maker
    number = ColumnModel(
        maker.name("id", odd=0), MySQLKind("int"), nullable=False, number="plain", extra="AUTO_INCREMENT"
    )
    columns = (number, ColumnModel(maker.name("what", odd=0), MySQLKind("varchar", 20, collation="utf8mb4_bin")))
    audit = replace(maker.model(maker.name("audit"), columns, KeyModel("auto", (number.name,))), fixed=True)
    draft.keep(audit)
    event = pen.choice(("INSERT", "UPDATE", "DELETE"))
    when = f"{pen.choice(('BEFORE', 'AFTER'))} {event} ON {table.sql} FOR EACH ROW"
    action = f"INSERT INTO {audit.sql} ({quoted(columns[1].name)}) VALUES ('{event}')"
    return (*audit.created(), f"CREATE TRIGGER {quoted(maker.name('trigger', odd=0))} {when} {action}")


def view(draft: SchemaDraft, table: TableModel) -> Statements:
    """It is broken as soon as its table changes its name."""
    name = quoted(draft.maker.name("view", odd=0.3))
    return (f"CREATE VIEW {name} AS SELECT {names([column.name for column in table.columns])} FROM {table.sql}",)


def sequence(draft: SchemaDraft, _table: TableModel) -> Statements | None:
    """MariaDB keeps a sequence in a table of one row, whose changes are in the log."""
    if draft.dialect != "mariadb":
        return None
    name = draft.maker.name("sequence", odd=0.2)
    draft.sequences.append(name)
    return (f"CREATE SEQUENCE {quoted(name)} CACHE {draft.pen.choice((0, 3, 1000))}",)


def forged_marks(draft: SchemaDraft, _table: TableModel) -> Statements:
    """Another program writes into Tidemark's own table: repeats all replicators' marks, or forges marks from them or
    garbage.
    """
    kind = draft.pen.choice("LOH")
    token = draft.pen.choice(("token", "token", f"CONCAT('{kind}', SUBSTR(token, 2))", f"'{kind}:1:1:forged'", "':::'"))
    return (f"UPDATE tidemark.watermark SET token = {token}, at = UTC_TIMESTAMP(6)",)


SURROUNDINGS: dict[str, tuple[int, Operation]] = {
    "trigger": (2, trigger), "view": (2, view), "sequence": (2, sequence), "forged marks": (3, forged_marks),
}  # fmt: skip


def next_value(draft: SchemaDraft, _table: TableModel) -> Statements | None:
    """Rows of the log that belong to no table."""
    if not draft.sequences:
        return None
    name = quoted(draft.pen.choice(draft.sequences))
    return (draft.pen.choice((f"SELECT NEXTVAL({name})", f"SELECT SETVAL({name}, {draft.pen.randint(1, 10**6)})")),)


SEQUENCES: dict[str, tuple[int, Operation]] = {"next value": (1, next_value)}


def prepared(draft: SchemaDraft, statements: Statements, name: str) -> Statements:
    """The statements as an XA transaction; one that is left prepared changes an unselected table as well, or alone."""
    draft.used["xa"] += 1
    xid = f"'{name}'"
    match draft.pen.choice(("commit", "commit", "one phase", "rollback", "left")):
        case "left":
            draft.used["xa left prepared"] += 1
            draft.left.append(name)
            others = (f"INSERT INTO {UNSELECTED}.t (v) VALUES ('{name}')",)
            statements = draft.pen.choice(((*statements, *others), others))
            end: Statements = (f"XA PREPARE {xid}",)
        case "one phase":
            end = (f"XA COMMIT {xid} ONE PHASE",)
        case "commit":
            end = (f"XA PREPARE {xid}", f"XA COMMIT {xid}")
        case _:
            end = (f"XA PREPARE {xid}", f"XA ROLLBACK {xid}")
    return (f"XA START {xid}", *statements, f"XA END {xid}", *end)


def decided(draft: SchemaDraft, name: str) -> Statements:
    """The end of an XA transaction that was left prepared, in whichever session."""
    return (f"XA {draft.pen.choice(('COMMIT', 'COMMIT', 'ROLLBACK'))} '{name}'",)


def prelude(_: SchemaDraft) -> Statements:
    """A database of which nothing is selected."""
    return (
        f"CREATE DATABASE IF NOT EXISTS {UNSELECTED}",
        f"CREATE TABLE IF NOT EXISTS {UNSELECTED}.t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(60))",
    )


def refused(draft: SchemaDraft) -> Statements:
    """A table that a replicator must refuse, alone."""
    pen = draft.pen
    draft.used["refused table"] += 1
    if pen.chance(0.6):
        return _refused_engine(draft)
    name = draft.maker.name("refused", odd=0)
    columns = (
        ColumnModel("id", MySQLKind("int"), nullable=False, number="plain"),
        ColumnModel("c", MySQLKind("varchar", 20, collation="eucjpms_bin")),
    )
    table = replace(draft.maker.model(name, columns, KeyModel("int", ("id",))), fixed=True, refused=True)
    if draft.dialect == "mariadb" and pen.chance(0.6):
        year = ColumnModel("c", MySQLKind("year", 2))
        table = replace(table, columns=(columns[0], year))
        if pen.chance(0.5):
            number = ColumnModel("c", MySQLKind("int"))
            table = replace(table, columns=(columns[0], number), options=" WITH SYSTEM VERSIONING")
    draft.keep(table)
    return (*table.created(), bulk(draft, table, 20))


def _refused_engine(draft: SchemaDraft) -> Statements:
    """Of a storage engine whose rows are not those of the log; a MERGE table together with the one that it shows."""
    pen, maker = draft.pen, draft.maker
    engine = pen.choice(("MERGE", "CSV") if draft.dialect == "mariadb" else ("MERGE", "CSV", "BLACKHOLE", "ARCHIVE"))
    draft.used[f"refused engine {engine}"] += 1
    columns = (
        ColumnModel("id", MySQLKind("int"), nullable=False, number="plain"),
        ColumnModel("c", MySQLKind("varchar", 20, collation="utf8mb4_general_ci"), nullable=False),
    )
    key = KeyModel("none") if engine in ("CSV", "ARCHIVE") else KeyModel("int", ("id",))
    table = replace(maker.model(maker.name("refused", odd=0), columns, key), fixed=True, refused=True)
    if engine != "MERGE":
        table = replace(table, options=f" ENGINE={engine}")
        draft.keep(table)
        return (*table.created(), bulk(draft, table, 20))
    table = replace(table, options=" ENGINE=MyISAM")
    union = f" ENGINE=MERGE UNION=({table.sql}) INSERT_METHOD=LAST"
    merge = replace(table, name=maker.name("refused", odd=0), options=union)
    draft.keep(table)
    draft.keep(merge)
    return (*table.created(), *merge.created(), bulk(draft, merge, 20))
