"""The forms in which a server takes a statement: comments, prepared, and MariaDB's SET STATEMENT and EXECUTE
IMMEDIATE.
"""

from __future__ import annotations

from testing.workload.model import Operation, Operations, SchemaDraft
from testing.workload.schemas import Statements, TableModel

OFTEN = 0.3
_MODES = ("", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES,STRICT_TRANS_TABLES")
_DDL = (
    "ALTER TABLE ",
    "RENAME TABLE ",
    "TRUNCATE TABLE ",
    "CREATE TABLE ",
    "DROP TABLE ",
    "CREATE INDEX ",
    "DROP INDEX ",
)


def in_all_forms(operations: Operations) -> dict[str, tuple[int, Operation]]:
    """The same operations, whose statements come in any form."""
    return {name: (weight, _formed(operation)) for name, (weight, operation) in operations.items()}


def _formed(operation: Operation) -> Operation:
    def made(draft: SchemaDraft, table: TableModel) -> Statements | None:
        statements = operation(draft, table)
        if statements is None or not draft.pen.chance(OFTEN):
            return statements
        return type(statements)(formed for one in statements for formed in _forms(draft, one))

    return made


def _forms(draft: SchemaDraft, statement: str) -> tuple[str, ...]:
    """A prepared statement may be read in one sql_mode and run in another; the text is the same in all of them."""
    if not statement.startswith(_DDL):
        return (statement,)
    pen, (verb, rest) = draft.pen, statement.split(" ", 1)
    forms = ["versioned", "comment"]
    same = statement.isascii() and "\\" not in statement and '"' not in statement
    forms += ["prepared", "prepared"] if same else []
    forms += ["SET STATEMENT", "SET STATEMENT"] if draft.dialect == "mariadb" else []
    forms += ["EXECUTE IMMEDIATE"] if same and draft.dialect == "mariadb" else []
    form = pen.choice(forms)
    draft.used[f"form {form}"] += 1
    text = "'" + statement.replace("'", "''") + "'"
    match form:
        case "versioned":
            return (f"/*!50000 {verb}*/ {rest}",)
        case "comment":
            return (f"/* DROP TABLE x; */ {verb} -- '\n {rest}",)
        case "SET STATEMENT":
            mode = f"sql_mode = '{pen.choice(_MODES)}', " if same and pen.chance(0.3) else ""
            if verb == "ALTER" and pen.chance(0.5):
                draft.used["form two phases"] += 1
                mode += "binlog_alter_two_phase = ON, "
            return (f"SET STATEMENT {mode}max_statement_time = (SELECT 60) FOR {statement}",)
        case "EXECUTE IMMEDIATE":
            return (f"EXECUTE IMMEDIATE {text}",)
    back = "SET SESSION sql_mode = @sql_mode_before"
    return (
        "SET @sql_mode_before = @@sql_mode", f"SET SESSION sql_mode = '{pen.choice(_MODES)}'",
        f"PREPARE formed FROM {text}", back,
        "EXECUTE formed",
    )  # fmt: skip
