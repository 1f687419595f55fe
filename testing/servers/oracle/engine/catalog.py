"""What the server knows: users and their rights, tables, keys, indexes, sequences.  Kept whole, as one value: a
definition works on a copy, which takes the old one's place when Postgres has committed it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from testing.servers.oracle.engine.errors import OracleError
from testing.servers.oracle.engine.kinds import Kind

DBA, ADMINISTRATORS = "DBA", ("SYS", "SYSTEM")
ROOT, PLUGGABLE = "CDB$ROOT", "ORCL"  # containers
DICTIONARY = frozenset({"SELECT ANY DICTIONARY", "SELECT_CATALOG_ROLE", DBA})
MINING = frozenset({"EXECUTE_CATALOG_ROLE", DBA})  # who may call DBMS_LOGMNR
ROLES = {
    "CONNECT": {"CREATE SESSION"},
    "RESOURCE": {"CREATE TABLE", "CREATE SEQUENCE", "CREATE TYPE", "CREATE PROCEDURE", "CREATE TRIGGER"},
    "SELECT_CATALOG_ROLE": set(), "EXECUTE_CATALOG_ROLE": set(), DBA: set(),
}  # fmt: skip


@dataclass(frozen=True)
class Column:
    """id: never given again; default: as written; unused: dropped from sight, still in old rows."""

    id: int
    name: str
    kind: Kind
    nullable: bool = True
    default: str | None = None
    hidden: bool = False
    virtual: str | None = None


@dataclass(frozen=True)
class Constraint:
    """kind: P, U, R, C; physical: its name in Postgres; generated: the name is the server's."""

    name: str
    kind: str
    columns: tuple[int, ...]
    physical: str
    generated: bool = False
    condition: str = ""
    target: tuple[str, str] | None = None  # owner and name of the key referred to
    delete_rule: str = "NO ACTION"


@dataclass(frozen=True)
class Index:
    name: str
    columns: tuple[int, ...]
    physical: str
    unique: bool = False


@dataclass(frozen=True)
class LogGroup:
    """kind: ALL COLUMN LOGGING, PRIMARY KEY LOGGING, UNIQUE KEY LOGGING, FOREIGN KEY LOGGING, USER LOG GROUP."""

    name: str
    kind: str
    columns: tuple[int, ...] = ()
    always: bool = True


@dataclass(frozen=True)
class Table:
    """obj: also of its tables in Postgres; version: of its columns; defined: SCN of the last definition."""

    obj: int
    data_obj: int
    owner: str
    name: str
    columns: tuple[Column, ...]
    constraints: tuple[Constraint, ...] = ()
    indexes: tuple[Index, ...] = ()
    log_groups: tuple[LogGroup, ...] = ()
    partitions: tuple[str, ...] = ()
    version: int = 1
    last_column: int = 0
    defined: int = 0
    temporary: bool = False
    organized: bool = False  # by its primary key
    comment: str | None = None
    comments: tuple[tuple[int, str], ...] = ()

    @property
    def rows(self) -> str:
        """The table in Postgres."""
        return f"o.t{self.obj}"

    @property
    def history(self) -> str:
        """All versions of its rows."""
        return f"o.h{self.obj}"

    def column(self, name: str) -> Column:
        found = self.find(name)
        if found is None:
            raise OracleError(904, f'"{name}"')
        return found

    def find(self, name: str) -> Column | None:
        return next((one for one in self.columns if one.name == name), None)

    @property
    def key(self) -> Constraint | None:
        return next((one for one in self.constraints if one.kind == "P"), None)

    def named(self, ids: tuple[int, ...]) -> list[Column]:
        known = {one.id: one for one in self.columns}
        return [known[one] for one in ids]


@dataclass(frozen=True)
class User:
    """grants: on objects, as (owner, name, privilege); container_data: of which containers the root shows rows."""

    name: str
    password: str
    id: int
    privileges: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    grants: frozenset[tuple[str, str, str]] = frozenset()
    container_data: frozenset[str] = frozenset()

    @property
    def common(self) -> bool:
        """Of all containers."""
        return self.name.startswith("C##") or self.name in ADMINISTRATORS

    def sees_container(self, name: str) -> bool:
        """Do V$ and GV$ views in the root show its rows?  The vendor's own users have CONTAINER_DATA = ALL."""
        return self.name in ADMINISTRATORS or bool(self.container_data & {"ALL", name})

    @property
    def all_privileges(self) -> frozenset[str]:
        return self.privileges.union(*(ROLES.get(role, set()) for role in self.roles))

    @property
    def administrator(self) -> bool:
        return DBA in self.roles or self.name in ADMINISTRATORS

    def has(self, *privileges: str) -> bool:
        """Any of them, or of roles."""
        return self.administrator or bool(self.all_privileges.intersection(privileges) or self.roles & {*privileges})


@dataclass
class Catalog:
    """database_logging: MIN, PRIMARY KEY, ALL … as ALTER DATABASE ADD SUPPLEMENTAL LOG DATA says."""

    users: dict[str, User] = field(default_factory=dict)
    tables: dict[tuple[str, str], Table] = field(default_factory=dict)
    types: dict[tuple[str, str], str] = field(default_factory=dict)
    sequences: dict[tuple[str, str], str] = field(default_factory=dict)
    database_logging: set[str] = field(default_factory=set)
    parameters: dict[str, str] = field(default_factory=dict)
    shapes: dict[tuple[int, int], dict[str, Kind]] = field(default_factory=dict)  # by object and version
    numbers: int = 70_000

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def table(self, owner: str, name: str) -> Table:
        found = self.tables.get((owner, name))
        if found is None:
            raise OracleError(942)
        return found

    def put(self, table: Table, **changes: object) -> Table:
        made = replace(table, **changes)  # type: ignore[arg-type]
        if (table.owner, table.name) != (made.owner, made.name):  # it is renamed
            del self.tables[table.owner, table.name]
        self.tables[made.owner, made.name] = made
        self.shapes[made.obj, made.version] = {str(one.id): one.kind for one in made.columns}
        return made

    def of_object(self, obj: int) -> Table | None:
        return next((one for one in self.tables.values() if one.obj == obj), None)

    def constraints(self) -> Iterator[tuple[Table, Constraint]]:
        for table in self.tables.values():
            for one in table.constraints:
                yield table, one

    def constraint(self, physical: str) -> tuple[Table, Constraint] | None:
        return next(((table, one) for table, one in self.constraints() if one.physical == physical), None)

    def children(self, table: Table) -> list[Table]:
        """Tables that a DELETE of the table's rows may change, too."""
        keys = {(table.owner, one.name) for one in table.constraints if one.kind in "PU"}
        found = [
            child
            for child, one in self.constraints()
            if one.kind == "R" and one.target in keys and one.delete_rule != "NO ACTION"
        ]
        return found + [more for child in found if child.obj != table.obj for more in self.children(child)]

    def sees(self, user: User, table: Table) -> bool:
        """Does ALL_TABLES list it?"""
        return (
            user.name == table.owner
            or user.has("SELECT ANY TABLE", "INSERT ANY TABLE", "UPDATE ANY TABLE", "DELETE ANY TABLE")
            or any((table.owner, table.name) == grant[:2] for grant in user.grants)
        )

    def check(self, user: User, table: Table, privilege: str) -> None:
        """ORA-00942 for who may not even see it, ORA-01031 for who may see it."""
        if user.name == table.owner or user.has(f"{privilege} ANY TABLE"):
            return
        if (table.owner, table.name, privilege) not in user.grants:
            raise OracleError(1031 if self.sees(user, table) else 942)
