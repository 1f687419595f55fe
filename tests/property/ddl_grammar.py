"""Random DDL of MariaDB in the spellings that people and tools use: names, quotes, comments, clauses."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

NAMES = (
    "id", "Name", "c.1", "order", "ö", "q`q", "comment", "after", "first", "partition", "check", "system", "period",
    "key",
    "column", "x y", "a€b", "to", "default", "if", "constraint", "x;y", "index", "as", "add", "z--z", "1a", "с", '"',
)  # fmt: skip
TABLES = ("plain", "t.dot", "select", "ünï", "a`b", "x y", "Upper", "rename", "€", "table")
TYPES = (
    "int", "INT(10) UNSIGNED", "bigint", "smallint", "decimal(10,2)", "decimal(12,2)", "double", "float", "varchar(10)",
    "varchar(40)", "char(5)", "text", "tinytext", "enum('a','b;c','d''e')", "enum('a','b;c','d''e','f,')",
    "set('x','y')", "date",
    "datetime", "datetime(3)", "timestamp NULL", "time", "year", "bit(4)", "varbinary(8)", "blob", "json", "uuid",
    "varchar(20) CHARACTER SET latin1", "varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "boolean", "timestamp",
)  # fmt: skip
EXTRAS = (
    "", "", "", "NULL", "NOT NULL", "DEFAULT NULL", "DEFAULT 1", "DEFAULT '0'", "NOT NULL DEFAULT '5'",
    "COMMENT 'DROP x, ADD y; -- `'",
    "DEFAULT (1 + 1)", "COMMENT 'it''s \\\\'", "INVISIBLE DEFAULT 7", "DEFAULT (concat('a', ',b'))",
    "NULL DEFAULT NULL COMMENT 'DEFAULT 5'",
    "COMMENT 'NOT NULL'", "CHECK (1 > 0)",
)  # fmt: skip


@dataclass
class Statement:
    """`renamed`: what the server must do to columns of the table; `sql_mode` it needs."""

    sql: str
    sql_mode: str = ""
    table: str = ""
    renamed: dict[str, str] = field(default_factory=dict)


class Grammar:
    """Random statements about the current tables and columns, which each call is given."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.ansi = self.plain = False

    def statement(self, tables: dict[str, list[str]]) -> Statement:
        """`tables`: name → columns."""
        rng = self.rng
        self.ansi, self.plain = rng.random() < 0.2, rng.random() < 0.15
        modes = [mode for mode, on in (("ANSI_QUOTES", self.ansi), ("NO_BACKSLASH_ESCAPES", self.plain)) if on]
        free = [name for name in TABLES if name not in tables]
        kinds = ["alter"] * 12 + ["rename", "truncate", "index", "drop"]
        kind = rng.choice(["create"] * 4 + ["like", "select"]) if len(tables) < 3 else rng.choice(kinds)
        made = (
            self._create(kind, free, tables)
            if kind in ("create", "like", "select")
            else self._other(kind, free, tables)
        )
        made.sql_mode = ",".join(modes)
        made.sql = made.sql.replace("\\\\", "\\") if self.plain else made.sql
        return made

    def _create(self, kind: str, free: list[str], tables: dict[str, list[str]]) -> Statement:
        name, rng = self.rng.choice(free), self.rng
        head = ["CREATE", rng.choice(("TABLE", "TABLE IF NOT EXISTS", "OR REPLACE TABLE")), self._table(name)]
        if kind == "like" and tables:
            return Statement(self._spaced([*head, "LIKE", self._table(rng.choice(sorted(tables)))]), table=name)
        if kind == "select" and tables:
            return Statement(
                self._spaced([*head, "AS SELECT * FROM", self._table(rng.choice(sorted(tables)))]), table=name
            )
        names = rng.sample(NAMES, rng.randint(2, 5))
        parts = [f"{self._name('pk')} int {rng.choice(('PRIMARY KEY', 'NOT NULL', 'AUTO_INCREMENT UNIQUE'))}"]
        parts += [self._column(column) for column in names if column.lower() != "pk"]
        tail = rng.choice(
            (
                "",
                "ENGINE=InnoDB",
                "COMMENT='x; DROP TABLE y'",
                "DEFAULT CHARSET=latin1",
                "PARTITION BY HASH (pk) PARTITIONS 3",
            )
        )
        return Statement(self._spaced([*head, "(" + ", ".join(parts) + ")", tail]), table=name)

    def _other(self, kind: str, free: list[str], tables: dict[str, list[str]]) -> Statement:
        name = self.rng.choice(sorted(tables))
        table = self._table(name)
        if kind == "truncate":
            return Statement(self._spaced(["TRUNCATE", self.rng.choice(("", "TABLE")), table]), table=name)
        if kind == "drop":
            return Statement(self._spaced(["DROP TABLE", self.rng.choice(("", "IF EXISTS")), table]), table=name)
        if kind == "rename":
            return Statement(
                self._spaced(["RENAME TABLE", table, "TO", self._table(self.rng.choice(free))]), table=name
            )
        if kind == "index":
            column = self._name(self.rng.choice(tables[name]))
            return Statement(
                self._spaced(["CREATE INDEX", f"i{self.rng.randrange(10**6)}", "ON", table, f"({column})"]), table=name
            )
        return self._alter(name, free, tables[name])

    def _alter(self, name: str, free: list[str], columns: list[str]) -> Statement:
        rng, renamed = self.rng, dict[str, str]()
        left = [column for column in columns if column != "pk"]
        rng.shuffle(left)
        fresh = [column for column in NAMES if column.lower() not in {c.lower() for c in columns}]
        rng.shuffle(fresh)
        clauses = [self._clause(left, fresh, renamed) for _ in range(rng.choice((1, 1, 1, 2, 2, 3)))]
        if rng.random() < 0.05:
            clauses.append(f"RENAME {rng.choice(('TO', 'AS', ''))} {self._table(rng.choice(free))}")
        if rng.random() < 0.2:
            clauses = [self._versioned(clauses)]
        head = [
            "ALTER",
            rng.choice(("", "", "ONLINE", "IGNORE")),
            "TABLE",
            rng.choice(("", "IF EXISTS")),
            self._table(name),
        ]
        return Statement(
            self._spaced([*head, rng.choice(("", "", "WAIT 5", "NOWAIT")), ", ".join(clauses)]),
            table=name,
            renamed=renamed,
        )

    def _versioned(self, clauses: list[str]) -> str:
        text = ", ".join(clauses)
        unseen = "/*!999999 , DROP COLUMN pk */" if self.rng.random() < 0.5 else ""
        return f"{self.rng.choice(('/*!50100 ', '/*M!100203 ', '/*! ', '/*M! '))}{text} */{unseen}"

    def _clause(self, left: list[str], fresh: list[str], renamed: dict[str, str]) -> str:  # noqa: PLR0911 - one for each
        rng = self.rng
        kind = rng.choice(
            ("add", "add", "add", "adds", "drop", "change", "modify", "modify", "rename", "other", "other")
        )
        if kind in ("drop", "change", "modify", "rename") and not left:
            kind = "add"
        if len(fresh) < 2:
            kind = "drop" if left else "other"
        maybe = rng.choice(("", "COLUMN"))
        if kind == "add":
            place = rng.choice(("", "", "FIRST", f"AFTER {self._name('pk')}"))
            return f"ADD {maybe} {rng.choice(('', 'IF NOT EXISTS'))} {self._column(fresh.pop())} {place}"
        if kind == "adds":
            return f"ADD {maybe} ({self._column(fresh.pop())}, {self._column(fresh.pop())})"
        if kind == "other":
            return self._harmless()
        column = left.pop()
        if kind == "drop":
            return (
                f"DROP {maybe} {rng.choice(('', 'IF EXISTS'))} {self._name(column)} {rng.choice(('', '', 'RESTRICT'))}"
            )
        if kind == "modify":
            return f"MODIFY {maybe} {self._column(column)} {rng.choice(('', 'FIRST'))}"
        new = fresh.pop() if rng.random() < 0.7 else column
        if new != column:
            renamed[column] = new
        if kind == "change":
            return f"CHANGE {maybe} {self._name(column)} {self._column(new)}"
        return f"RENAME COLUMN {self._name(column)} TO {self._name(new)}"

    def _harmless(self) -> str:
        number = self.rng.randrange(10**6)
        return self.rng.choice((
            f"ADD INDEX `i{number}` (pk)", f"ADD CONSTRAINT c{number} CHECK (pk > -1)", "COMMENT 'DROP COLUMN pk'",
            "ENGINE InnoDB",
            "CONVERT TO CHARACTER SET utf8mb4", "CONVERT TO CHARACTER SET latin1", "ORDER BY pk", "FORCE",
            "AUTO_INCREMENT = 100",
            "ALTER pk SET DEFAULT 3", "ALGORITHM=COPY", "ROW_FORMAT=DYNAMIC",
            "DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            f"ADD UNIQUE u{number} (pk)", "MAX_ROWS=5", "STATS_PERSISTENT=1", "DISABLE KEYS", "REMOVE PARTITIONING",
            f"ADD KEY k{number} (pk) COMMENT 'RENAME TO x'", "PAGE_CHECKSUM=1", "COALESCE PARTITION 1",
        ))  # fmt: skip

    def _column(self, name: str) -> str:
        return f"{self._name(name)} {self.rng.choice(TYPES)} {self.rng.choice(EXTRAS)}"

    def _table(self, name: str) -> str:
        return (
            f"{self._name('ddl_fuzz')}{self.rng.choice(('.', ' . '))}{self._name(name)}"
            if self.rng.random() < 0.3
            else self._name(name)
        )

    def _name(self, name: str) -> str:
        if self.rng.random() < 0.4 and (
            name in ("pk", "Name", "ö", "a€b", "plain", "ünï", "Upper", "ddl_fuzz", "с", "€")
        ):
            return name
        if self.ansi and self.rng.random() < 0.6:
            return '"' + name.replace('"', '""') + '"'
        return "`" + name.replace("`", "``") + "`"

    def _spaced(self, parts: list[str]) -> str:
        """Blanks and comments between the parts."""
        rng, out = self.rng, ""
        for part in filter(None, parts):
            blank = rng.choice(
                (" ",) * 8
                + ("\n\t", " /* , DROP x */ ", " -- c, ADD y int\n", " # c\n", "/**/", " /* ' */ ", " /*!50001 */ ")
            )
            out += part + blank
        return out.strip() + rng.choice(("", "", ";", " -- end", "/* end"[:0]))
