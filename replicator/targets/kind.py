"""A kind of target: what there is to know of it before one is opened.  Loads neither Spark nor a client: for pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId
from replicator.model.retention import Retention
from replicator.model.routing import Route, Routing
from replicator.model.types import DataType
from replicator.sources.base import CheckResult, FormField
from replicator.staging.storage import Storage
from replicator.targets.base import Capabilities, Target, TargetTable
from replicator.targets.iceberg.destination import LakeCatalog
from replicator.targets.identifiers import IdentifierPolicy
from replicator.targets.shared_settings import check_shared

if TYPE_CHECKING:
    from replicator.targets.iceberg.jvm.session import SparkPool
    from replicator.verification import TargetConfig

Settings = Mapping[str, Any]
CELL = 200  # characters of a value that a preview shows
FULL, PARTIAL, NONE = "full", "partial", "none"


@dataclass(frozen=True)
class Opening:
    """What a target may ask for.

    `replicator`: the label that marks the replicator's tables; `config`: the settings of destination and replicator,
    including secrets.

    spark: called with the catalog, only by targets that need it; lake: the installation's catalog.
    source: Debezium's name of the source's connector.  retention: the default, where a table has none.
    """

    spark: Callable[[LakeCatalog], SparkPool]
    lake: LakeCatalog
    storage: Storage
    replicator: str
    config: Settings
    source: str
    retention: Retention = field(default_factory=Retention.parse)


@dataclass(frozen=True, slots=True)
class TypeSupport:
    """What a target makes of one of Tidemark's types: its own name for it; support full, partial or none, and why."""

    name: str
    support: str = FULL
    note: str = ""


@dataclass(frozen=True, slots=True)
class QueryExample:
    """What to paste into an engine to read a table; `<…>` stands for each secret."""

    engine: str
    text: str


@dataclass(frozen=True, slots=True)
class InspectedTable:
    """A table of the target as it is now.

    rows: that live; bytes: of data files and files of deletes; compacted_at: None where no compaction is known.
    files: 0 of a table that is not made of files and has no snapshots.
    """

    location: str
    rows: int
    bytes: int
    files: int
    delete_files: int
    snapshots: int
    columns: int
    committed_at: datetime | None
    compacted_at: datetime | None
    examples: Sequence[QueryExample]


@dataclass(frozen=True, slots=True)
class Preview:
    """Some rows, as texts; None is NULL."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str | None]]

    @classmethod
    def of(cls, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Preview:
        """Of values by column; long ones are cut."""
        return cls(columns, [[_shown(row.get(name)) for name in columns] for row in rows])


def _shown(value: object) -> str | None:
    if value is None:
        return None
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= CELL else f"{text[:CELL]}…"


@dataclass(frozen=True)
class TargetKind:
    """A plugin: how it is opened, what its forms ask for, what it can do.

    destination_form: how a destination is reached; form: what each replicator sets for itself.
    valid: ConfigurationError for settings, of both forms together, that make no sense to this kind.
    check: tries them out, the replicator's at their defaults where there are none; None where there is nothing to try.
    written: does the place have what was written there before?
    namespace: that of a database's tables; place: tells destinations of one kind apart in which the same names are
    other tables; dataset: the URI that lineage events name the place by, given the lake of the installation.
    types: what becomes of one of Tidemark's types.
    identifiers_at: the rules for names, where they depend on the destination.
    fixed: settings of a replicator that cannot be changed once it is created, with the reason.
    effects: when a change of another one takes effect.
    report: of a table (namespace, name), without starting anything; preview: up to a number of its rows, of a shared
    table those of the part.  None: it does not exist.
    clean: deletes dropped tables that are due at a time (seconds since 1970), and returns their number.
    test_note: what the check leaves and changes, where it does.
    proof: what its tests run on, in a sentence that begins with the label, where users must know that before a start.
    refused_column: why no column can have a name, in a sentence; empty where one can.
    verification: how verification reaches its tables (`Capabilities.verified`).
    compare: how its copy is compared with the source, in a sentence, where verification cannot.
    """

    name: str
    title: str
    about: str
    open: Callable[[Opening], Target]
    capabilities: Capabilities
    types: Callable[[DataType], TypeSupport]
    namespace: Callable[[Settings, str], str]
    place: Callable[[Settings], str]
    dataset: Callable[[Settings, LakeCatalog], str]
    form: Sequence[FormField]
    destination_form: Sequence[FormField] = ()
    valid: Callable[[Settings], object] = dict
    identifiers: IdentifierPolicy = field(default_factory=IdentifierPolicy)
    identifiers_at: Callable[[Settings], IdentifierPolicy] | None = None
    fixed: Mapping[str, str] = field(default_factory=dict)
    effects: Mapping[str, str] = field(default_factory=dict)
    check: Callable[[Settings], list[CheckResult]] | None = None
    written: Callable[[Settings], CheckResult] | None = None
    report: Callable[[Settings, LakeCatalog, str, str], InspectedTable | None] | None = None
    preview: Callable[[Settings, LakeCatalog, TargetTable, int], Preview | None] | None = None
    clean: Callable[[Opening, float], int] | None = None
    verification: Callable[[Settings, LakeCatalog], TargetConfig] | None = None
    compare: str = ""
    proof: str = ""
    refused_column: Callable[[str], str] = lambda _: ""
    test_note: str = ""
    guide: str = ""

    @property
    def label(self) -> str:
        """How it was tested, in a word or three: `Preview`; empty where no label is needed."""
        return self.proof.partition(":")[0]

    def at(self, settings: Settings) -> TargetKind:
        """The kind as a destination with these settings has it."""
        return replace(self, identifiers=self.identifiers_at(settings)) if self.identifiers_at else self

    def check_settings(self, settings: Settings) -> None:
        """ConfigurationError for settings, of both forms together, that make no sense."""
        self.valid(settings)
        check_shared(settings)
        if Routing.of(settings).shares and not self.capabilities.shared_modes:
            message = f"routing: {self.title} does not have tables that several source tables share."
            raise ConfigurationError(message, remedy="Route each table to a separate target table.")

    def table_name(self, settings: Settings, table: TableId) -> tuple[str, str, str]:
        """Namespace, name and part (`TargetTable`) in the target: by the routing rules, or by the source's names."""
        route = Routing.of(settings).route(table) or Route(self.namespace(settings, table.database), table.name)
        return self.identifiers.legal(route.namespace), self.identifiers.legal(route.name), route.part

    @property
    def settings(self) -> Sequence[FormField]:
        """Of both forms."""
        return (*self.destination_form, *self.form)

    def type_name(self, kind: DataType) -> str:
        """The target's own name of a type."""
        return self.types(kind).name
