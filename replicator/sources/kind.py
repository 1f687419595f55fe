"""What the registry has of a source: a folder's front door."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replicator.model.identifiers import TableId
from replicator.model.offset import Offset
from replicator.model.schema import Column
from replicator.sources.base import FormField, Source
from replicator.sources.shared.dataset_names import server_dataset
from replicator.sources.shared.dialect import SourceDialect

if TYPE_CHECKING:
    from replicator.verification.source import SourceReader

STANDARD_SQL = SourceDialect("")


def host_and_port(config: Mapping[str, Any]) -> str:
    """Of a server."""
    return ":".join(str(config[name]) for name in ("host", "port") if config.get(name))


def as_written(column: Column, text: str) -> str:
    """As people write it."""
    del column
    return text


def padded(column: Column, text: str, *names: str) -> str:
    """With blanks up to the size of a type of these names, such as CHAR(n); as it is for other types."""
    name, _, size = column.source_type.removesuffix(")").partition("(")
    return text.ljust(int(size)) if name in names and size.isdigit() else text


@dataclass(frozen=True)
class SourceKind:
    """A source plugin: how to open it, how to read its offsets back, what its form asks for, where its guide is.

    `open`: ConfigurationError for settings that no form can have sent.  `load` imports what the plugin needs, before
    processes fork; pages and commands do not need that.  `valid`: ConfigurationError for settings that cannot be right.
    `about`: the supported servers, in a few words.  `database_word`: what users of this source call a
    `TableId.database`; its plural takes an s.
    `address`: where the source is, in short, for lists; from settings without secrets.
    `own_databases`: Tidemark's own databases on the source, in lower case; they hold no user data.
    `key_text`: turns a key value that a user typed into the form in which the source shows such values.
    `lineage`: OpenLineage's namespace and name of a table (openlineage.io/docs/spec/naming), from settings without
    secrets; None: `kind://host:port` and `database.table`.
    `verification_reader` opens the reader of `manage.py verify` with a connection's settings; None: not supported.
    `whole_rows`: the remedy where a row filter needs rows as they were before a change, and the log lacks them.
    `value_options`: how values are read, for the user to choose; each is an option of a replicator under its name.
    `proof`: what its tests run on, in a sentence that begins with the label; set if users should know before a start.
    `type_document`: its section of docs/types.md.  `connector`: what Debezium calls its connector (empty: as `name`).
    """

    name: str
    title: str
    open: Callable[[Mapping[str, Any]], Source]
    parse_offset: Callable[[Mapping[str, Any]], Offset]
    form: Sequence[FormField]
    guide: str
    about: str = ""
    database_word: str = "database"
    dialect: SourceDialect = STANDARD_SQL
    valid: Callable[[Mapping[str, Any]], object] = dict
    load: Callable[[], None] = lambda: None
    address: Callable[[Mapping[str, Any]], str] = host_and_port
    own_databases: Callable[[Mapping[str, Any]], Collection[str]] = lambda _: ()
    key_text: Callable[[Column, str], str] = as_written
    lineage: Callable[[Mapping[str, Any], TableId], tuple[str, str]] | None = None
    verification_reader: Callable[[Mapping[str, Any]], SourceReader] | None = None
    type_document: Callable[[], str] | None = None
    connector: str = ""
    value_options: Sequence[FormField] = ()
    proof: str = ""
    whole_rows: str = "Enable full before images in the source's log, or remove the filter."

    def __post_init__(self) -> None:
        object.__setattr__(self, "connector", self.connector or self.name)

    @property
    def label(self) -> str:
        """How it was tested, in a word or three: `Preview`; empty where no label is needed."""
        return self.proof.partition(":")[0]

    def dataset(self, config: Mapping[str, Any], table: TableId) -> tuple[str, str]:
        """Namespace and name of a table for lineage tools."""
        return self.lineage(config, table) if self.lineage else server_dataset(self.name, config, table)


def read_guide(file: str) -> str:
    """The README beside a plugin's file."""
    return (Path(file).parent / "README.md").read_text(encoding="utf-8")
