"""What a comparison is asked, and what it answers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


@dataclass(frozen=True)
class SourceConfig:
    """Where to read the source.

    `connect` is passed on to pymysql.connect or psycopg2.connect (TLS and the like).  verified: TLS proves who the
    server is.  Only for Postgres: `database`, and `ca`, the PEM text of the authorities that sslmode verify-… trusts.
    """

    host: str
    port: int
    user: str
    password: str = field(repr=False, default="")
    connect: Mapping[str, Any] = field(default_factory=dict, repr=False)
    database: str = ""
    ca: str = field(default="", repr=False)
    verified: bool = False


@dataclass(frozen=True)
class CatalogConfig:
    """An Iceberg SQL (JDBC) catalog: `uri` is SQLAlchemy's, `name` the catalog's name inside it.

    Where `properties` have a `type`, they say all: those of pyiceberg's `load_catalog`.
    """

    name: str
    uri: str = field(repr=False)
    warehouse: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class DeltaConfig:
    """Delta tables: `uri` says where one is, by its namespace and name; `options` are delta-rs' storage options."""

    uri: Callable[[str, str], str]
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class DatabaseConfig:
    """Tables of a Postgres database, which is read as a source is."""

    server: SourceConfig


@dataclass(frozen=True)
class RedshiftConfig:
    """Tables of a Redshift database.  connect: makes a connection of Amazon's client with autocommit."""

    connect: Callable[[], Any] = field(repr=False)


@dataclass(frozen=True)
class SnowflakeConfig:
    """Tables of a Snowflake database; `connect` is passed on to snowflake.connector.connect."""

    database: str
    connect: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class BigQueryConfig:
    """Tables of a Google Cloud project; endpoint: of the API, empty: Google's; credentials: google.auth's."""

    project: str
    location: str
    endpoint: str = ""
    credentials: Any = field(default=None, repr=False)


@dataclass(frozen=True)
class SpannerConfig:
    """Tables of a Spanner database.  host: with port; login: makes google-auth's credentials; None: an emulator."""

    project: str
    instance: str
    database: str
    host: str
    login: Callable[[Sequence[str]], Any] | None = field(default=None, repr=False)


TableConfig = DeltaConfig | DatabaseConfig | RedshiftConfig | SnowflakeConfig | BigQueryConfig | SpannerConfig
TargetConfig = CatalogConfig | TableConfig


@dataclass(frozen=True)
class TablePair:
    """A source table and its copy.  `key`: columns that tell rows apart; empty: compared as a multiset.

    `database` is the schema where the source is a Postgres.  mode: mirror, soft_delete, history or changelog
    (docs/modes.md).
    `masks`: column → kind (null, fixed, partial, hash) and what it needs; `salt`: what hashes begin with.
    `row_filter`: conditions that hold for every row taken, each with column, operator and (as texts) values.
    `computed`: column → kind (constant, cast, commit_time, offset, operation), type and value; of the last three
    only the type is looked at.
    `part`: of a target table that several source tables share, the column that tells their rows apart and its value.
    `still`: nothing changes the copy now (the table has failed, the replicator is stopped): it is looked at once.
    """

    database: str
    table: str
    namespace: str
    name: str
    key: tuple[str, ...] = ()
    excluded_columns: frozenset[str] = frozenset()
    mode: str = "mirror"
    masks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    salt: bytes = field(default=b"", repr=False)
    row_filter: Sequence[Mapping[str, Any]] = ()
    still: bool = False
    computed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    part: tuple[str, str] = ("", "")

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


@dataclass(frozen=True)
class Options:
    """How to compare.

    zero_dates        "null" or "text": what the replicator makes of dates that the target cannot hold (0000-00-00,
                      infinity)
    shown             differing rows reported per table
    retries, wait     how often, and after how many seconds, all that differs is re-read (a source under write load)
    before_recheck    called instead of waiting; returns the tables (`str(pair)`) whose copies are known to have held
                      all that their sources held at some look: what differed then and still differed later is final
    ignore_extra_columns   columns that the source no longer has may stay in the target
    sequence_column   the target's own column: no nulls, no duplicates; "" where there is none
    partition_rows    digests of each side held in memory at a time
    listed_rows       differing rows of each side that are listed at most; beyond: `truncated`
    recheck_keys      differing keys that are re-read by key at most; beyond: the whole table
    """

    zero_dates: str = "null"
    shown: int = 20
    retries: int = 0
    wait: float = 2.0
    before_recheck: Callable[[], Collection[str] | None] | None = None
    ignore_extra_columns: bool = False
    sequence_column: str = "_sequence_num"
    partition_rows: int = 4_000_000
    listed_rows: int = 500_000
    recheck_keys: int = 5_000
    spill: str = field(default_factory=tempfile.gettempdir)


class DifferenceKind(StrEnum):
    """Seen from the source."""

    MISSING = "missing in target"
    EXTRA = "extra in target"
    DIFFERENT = "different"


@dataclass(frozen=True)
class RowDifference:
    """One differing row: its key values as text (keyless: all), and the columns that differ if known."""

    kind: DifferenceKind
    row: Mapping[str, str | None]
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.row.items())
        return f"{self.kind}: {values}" + (f" (in {', '.join(self.columns)})" if self.columns else "")


@dataclass
class TableReport:
    """One table's outcome.

    `columns`: sentences about its definition, and its versions; `error`: why it was not compared.

    Of a changelog target_rows are those that its changes come to.
    """

    pair: TablePair
    source_rows: int = 0
    target_rows: int = 0
    missing: int = 0
    extra: int = 0
    different: int = 0
    differences: list[RowDifference] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    null_sequences: int = 0
    duplicate_sequences: int = 0
    truncated: bool = False
    rechecks: int = 0
    seconds: float = 0.0
    error: str = ""

    @property
    def equal(self) -> bool:
        """True where nothing at all differs."""
        found = self.missing + self.extra + self.different + self.null_sequences + self.duplicate_sequences
        return not (found or self.columns or self.error)

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        numbers = (
            "source_rows", "target_rows", "missing", "extra", "different",
            "null_sequences", "duplicate_sequences", "truncated", "rechecks", "error",
        )  # fmt: skip
        differences = [{"kind": str(d.kind), "row": dict(d.row), "columns": list(d.columns)} for d in self.differences]
        return {
            "table": str(self.pair),
            "target": f"{self.pair.namespace}.{self.pair.name}",
            "equal": self.equal,
            **{name: getattr(self, name) for name in numbers},
            "columns": list(self.columns),
            "differences": differences,
            "seconds": round(self.seconds, 3),
        }

    def lines(self) -> list[str]:
        """For people: one line, then what differs."""
        if self.equal:
            return [f"{self.pair}: equal, {self.source_rows} row{'' if self.source_rows == 1 else 's'}"]
        counts = (
            f"{'at least ' * self.truncated}{self.missing} missing, {self.extra} extra, "
            f"{self.different} different, {self.duplicate_sequences} sequence numbers doubled, "
            f"{self.null_sequences} null"
        )
        head = (
            self.error
            or f"{counts}; {self.source_rows} row{'' if self.source_rows == 1 else 's'} in the source, "
            f"{self.target_rows} in the target"
        )
        shown = [f"  {difference}" for difference in self.differences]
        return [f"{self.pair}: NOT equal: {head}", *(f"  {text}" for text in self.columns), *shown]
