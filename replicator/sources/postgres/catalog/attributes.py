"""What Postgres says of a table and its columns: pg_class, pg_attribute, pg_type."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from replicator.model.schema import TableSchema
from replicator.sources.postgres.catalog.publication import NOT_PUBLISHED

_UNPUBLISHED = frozenset({"", NOT_PUBLISHED})  # not known to be published
_FILLED = frozenset("ab")  # origins (`describe_sql.PRINTS`) of partitions that may have brought rows


class ReplicaIdentity(StrEnum):
    """pg_class.relreplident: what of an old row the log has."""

    DEFAULT = "d"
    NOTHING = "n"
    FULL = "f"
    INDEX = "i"


@dataclass(frozen=True, slots=True)
class PgType:
    """A row of pg_type.

    `base`: a domain's base type, which is not a domain itself; `element`: an array's; `parts`: of a composite type or a
    range.
    `kind` is typtype: b(ase), c(omposite), d(omain), e(num), m(ultirange), p(seudo), r(ange).
    """

    oid: int
    name: str
    schema: str = "pg_catalog"
    kind: str = "b"
    base: PgType | None = None
    base_typmod: int = -1
    element: PgType | None = None
    parts: tuple[PgType, ...] = ()


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column.

    `type_text` is format_type's; `generated`: "", "s"(tored) or "v"(irtual); `has_missing`: rows older than the column
    show a value that is stored nowhere in them; `has_default`: of any kind, sequences and identity included.
    """

    name: str
    number: int
    type: PgType
    typmod: int = -1
    type_text: str = ""
    nullable: bool = True
    generated: str = ""
    has_default: bool = False
    has_missing: bool = False
    comment: str = field(default="", compare=False)

    @property
    def plain(self) -> tuple[PgType, int]:
        """The type without domains, and the modifier that counts."""
        if self.type.base is None:
            return self.type, self.typmod
        return self.type.base, self.type.base_typmod


@dataclass(frozen=True, slots=True)
class ColumnFingerprint:
    """What distinguishes a table, its storage and its definition from earlier ones: the text of `TableSchema.identity`.

    `node`: relfilenode, which changes with TRUNCATE, VACUUM FULL and every rewrite.  Of a partitioned table: `p` and
    the relfilenodes of its partitions, each with its oid and origin (`describe_sql.PRINTS`).
    `columns`: a digest of the replica identity and of the versions of the table's rows in pg_attribute, with the number
    of columns that there ever were (`width`).  A statement that gives existing rows other values changes both `node`
    and `columns`.
    `types`: a short digest of each label of the enums, with the transaction that wrote it, and of each composite type
    that its columns are made of.
    `published`: see `publication.published`; empty if it was never looked up.
    """

    oid: int
    node: str = ""
    columns: str = ""
    types: str = ""
    published: str = ""

    def __str__(self) -> str:
        said = f"{self.oid}/{self.node}/{self.columns}/{self.types}"
        return f"{said}/{self.published}" if self.published else said

    @classmethod
    def parse(cls, identity: str) -> ColumnFingerprint | None:
        """None where it is none: a table of which no more than the name is known."""
        parts = identity.split("/")
        if len(parts) not in {4, 5} or not parts[0].isdigit():
            return None
        return cls(int(parts[0]), *parts[1:])

    def with_partition(self, oid: int, came: str = "l") -> ColumnFingerprint:
        """With a partition, if there is none with this oid yet: one of which the log has rows, l, or that was seen to
        be empty, e.
        """
        if not self.node.startswith("p") or str(oid) in _partitions(self.node):
            return self
        return replace(self, node=f"{self.node}{',' * (self.node != 'p')}{oid}:{oid}:{came}")

    @property
    def width(self) -> int:
        """The greatest column number that the table ever had; 0 if unknown, as in what earlier versions stored."""
        return int(self.columns.partition(".")[2] or 0)

    def attached_since(self, before: ColumnFingerprint) -> dict[int, str]:
        """Partitions that had not been there, and may have had rows, though none that was rewritten: how they came."""
        if not (self.node.startswith("p") and before.node.startswith("p")):
            return {}
        was = _partitions(before.node)
        now = {
            oid: came for oid, (storage, came) in _partitions(self.node).items() if storage == oid and oid not in was
        }
        return {int(oid): came for oid, came in now.items() if came[:1] in _FILLED}

    def same_table(self, other: ColumnFingerprint) -> bool:
        """However it is published."""
        return replace(self, published="") == replace(other, published="")

    def republished(self, before: ColumnFingerprint) -> bool:
        """May the log lack changes of the table since?

        One that was not published is not read before it is, and rows that are read say how it is.
        """
        return bool(self.published) and before.published not in _UNPUBLISHED and self.published != before.published

    def rewritten(self, before: ColumnFingerprint) -> bool:
        """May existing rows have other values than before?  Where it is not known, they may."""
        if not all((self.node, self.columns, before.node, before.columns)):
            return True
        said = set(self.types.split(","))
        said |= {
            part.rpartition(":")[0] for part in said
        }  # labels as they were stored by an earlier version, without a transaction
        if set(before.types.split(",")) - said - {"-"}:
            return True  # additional labels do not matter
        if self.node.startswith("p"):
            return self._partitions_differ(before)
        return self.node != before.node and self.columns != before.columns

    def _partitions_differ(self, before: ColumnFingerprint) -> bool:
        """May rows have come or gone with partitions, which the log does not show?

        They may with a partition that is gone, emptied, rewritten, or attached (again).  A new partition whose storage
        is not the one it was created with (relfilenode equal to its oid, or none) was emptied before it was seen.  A
        partition that was known from the log alone may have had rows before, unless it was created as a partition.
        """
        was, now = (_partitions(one.node) for one in (before, self))
        for oid, (storage, came) in was.items():
            if oid not in now or now[oid][0] != storage or came[1:] not in {now[oid][1][1:], ""}:  # "": not known
                return True
            if came == "l" and now[oid][1][:1] in _FILLED:
                return True
        return any(
            came[:1] in _FILLED or storage not in {oid, "0"} for oid, (storage, came) in now.items() if oid not in was
        )


def with_publication_of(shown: TableSchema, known: TableSchema) -> TableSchema:
    """`known`, as published as `shown` is, where it is not known how."""
    seen, before = ColumnFingerprint.parse(shown.identity), ColumnFingerprint.parse(known.identity)
    if seen is None or before is None or before.published not in _UNPUBLISHED:
        return known
    return replace(known, identity=str(replace(before, published=seen.published or before.published)))


def is_partitioned(schema: TableSchema) -> bool:
    """As far as is known."""
    known = ColumnFingerprint.parse(schema.identity)
    return known is not None and known.node.startswith("p")


def _partitions(node: str) -> dict[str, tuple[str, str]]:
    """Oid → storage, and how it came."""
    parts = (part.split(":") for part in node[1:].split(",") if part)
    return {oid: (storage, came) for oid, storage, came in parts}


@dataclass(frozen=True, slots=True)
class TableDescription:
    """A table's schema with what reading it takes; `attributes` are in the order of `schema.columns`.

    `kind` is relkind: r, or p for a partitioned table.  `key_index`: the index behind `schema.key`, "" where there is
    none. What tells a rewritten table from one that is as it was stands in `schema.identity` (see `ColumnFingerprint`).
    """

    schema: TableSchema
    attributes: tuple[Attribute, ...]
    oid: int
    identity: ReplicaIdentity
    kind: str = "r"
    key_index: str = ""

    def attribute(self, name: str) -> Attribute:
        """KeyError for an unknown name."""
        for one in self.attributes:
            if one.name == name:
                return one
        raise KeyError(name)


def as_published(description: TableDescription, published: str) -> TableDescription:
    """The catalog's description says nothing of that."""
    known = ColumnFingerprint.parse(description.schema.identity)
    assert known is not None
    identity = str(replace(known, published=published))
    return replace(description, schema=replace(description.schema, identity=identity))
