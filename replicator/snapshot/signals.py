"""Rows of the signalling table on the source: what they ask for, in Debezium's form.

See "Sending signals to a Debezium connector" in Debezium's documentation.  `keys` is Tidemark's own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa

from replicator.errors import ConfigurationError
from replicator.model.change import Operation
from replicator.model.identifiers import TableId, TablePattern, written_name
from replicator.model.schema import OPERATION
from replicator.sources.shared.dialect import SourceDialect
from replicator.state.journal import Signal

MAX_SIGNAL_LENGTH = 8 * 1024 * 1024  # characters of a signal's data
MAX_NAME = 300
COLUMNS = ("id", "type", "data")
_REMEDY = "Insert another row; see docs/snapshots.md for the format."


class Act(StrEnum):
    EXECUTE = "execute-snapshot"
    STOP = "stop-snapshot"
    PAUSE = "pause-snapshot"
    RESUME = "resume-snapshot"


@dataclass(frozen=True)
class SnapshotSignal:
    """What a signal asks for.

    `tables`: names or patterns (None: all tables).  `conditions`: by name or pattern; a table takes the first one that
    names it.
    """

    act: Act
    tables: tuple[str, ...] | None
    conditions: tuple[tuple[str, str], ...] = ()
    keys: tuple[Any, ...] | str | None = None

    def wants(self, table: TableId) -> bool:
        return self.tables is None or any(names(pattern, table) for pattern in self.tables)

    def condition(self, table: TableId) -> str:
        """Empty: the whole table."""
        return next((filter_ for pattern, filter_ in self.conditions if names(pattern, table)), "")


def signals_in(data: pa.RecordBatch) -> list[Signal]:
    """The rows inserted by a batch of changes of the signalling table.

    ConfigurationError where it has not their columns.
    """
    found = {name.lower(): name for name in data.schema.names}
    if missing := [name for name in COLUMNS if name not in found]:
        message = f"The signalling table has no column {missing[0]}."
        raise ConfigurationError(message, remedy="Create it again with the CREATE TABLE shown in the settings.")
    rows = data.select([OPERATION, *(found[name] for name in COLUMNS)]).to_pylist()
    texts = [[str(row[found[name]] or "") for name in COLUMNS] for row in rows if row[OPERATION] == Operation.INSERT]
    return [Signal(*text) for text in texts]


def parse_signal(signal: Signal) -> SnapshotSignal:
    """ConfigurationError, in a sentence, for what it is not."""
    try:
        act = Act(signal.type.strip().lower())
    except ValueError:
        message = f"Unknown signal {signal.type!r}; known signals: {', '.join(Act)}."
        raise ConfigurationError(message, remedy=_REMEDY) from None
    data = _object(signal.data)
    kind = str(data.get("type") or "incremental")
    if kind.lower() != "incremental":
        message = f"Unsupported snapshot type {kind!r} ; only incremental snapshots are supported."
        raise ConfigurationError(message, remedy=_REMEDY)
    tables = _tables(data.get("data-collections"), required=act is Act.EXECUTE)
    if act is not Act.EXECUTE:
        return SnapshotSignal(act, tables)
    keys = data.get("keys")
    if keys is not None and not isinstance(keys, list | str):
        message = "keys must be a list, or text with one key per line."
        raise ConfigurationError(message, remedy=_REMEDY)
    given = tuple(keys) if isinstance(keys, list) else keys
    return SnapshotSignal(act, tables, _conditions(data, tables or ()), given)


def names(pattern: str, table: TableId) -> bool:
    r"""Is it the table's name, or a pattern (`*`, `?`) for the whole of it, in any case of letters?

    Of Debezium's regular expressions `.*` and `\.` are taken: who writes signals must not make capture work for long.
    """
    whole, plain = str(table), pattern.replace("\\.", ".").replace(".*", "*")
    return pattern in {whole, written_name(table)} or TablePattern("", plain.lower()).matches(
        TableId("", whole.lower())
    )


def create_table(table: TableId, dialect: SourceDialect) -> str:
    """The statement that makes it in the source's SQL."""
    name = dialect.quoted(table.database, table.name)
    return f"CREATE TABLE {name} (id VARCHAR(42) PRIMARY KEY, type VARCHAR(32) NOT NULL, data {dialect.text} NULL)"


def _object(text: str) -> Mapping[str, Any]:
    if len(text) > MAX_SIGNAL_LENGTH:
        message = f"The data of the signal is longer than {MAX_SIGNAL_LENGTH:,} characters."
        raise ConfigurationError(message, remedy=_REMEDY)
    try:
        found = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        message = f"The data of the signal is not valid JSON: {error}."
        raise ConfigurationError(message, remedy=_REMEDY) from None
    if not isinstance(found, dict):
        message = "The data of the signal is not a JSON object."
        raise ConfigurationError(message, remedy=_REMEDY)
    return found


def _tables(found: Any, *, required: bool) -> tuple[str, ...] | None:
    if found is None and not required:
        return None
    if not isinstance(found, list) or not found or not all(isinstance(one, str) for one in found):
        message = "data-collections must be a list of table names."
        raise ConfigurationError(message, remedy=_REMEDY)
    return tuple(_pattern(one) for one in found)


def _pattern(text: str) -> str:
    if len(text) > MAX_NAME:
        message = f"A name in data-collections is longer than {MAX_NAME} characters."
        raise ConfigurationError(message, remedy=_REMEDY)
    return text


def _conditions(data: Mapping[str, Any], tables: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """`additional-condition`, one for all, is the older form."""
    found = data.get("additional-conditions") or []
    older = data.get("additional-condition")
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        message = "additional-conditions must be a list of objects."
        raise ConfigurationError(message, remedy=_REMEDY)
    made = []
    for one in found:
        name, filter_ = one.get("data-collection"), one.get("filter")
        if not isinstance(name, str) or not isinstance(filter_, str):
            message = "Each of additional-conditions must have data-collection and filter."
            raise ConfigurationError(message, remedy=_REMEDY)
        made.append((_pattern(name), filter_))
    made += [(name, older) for name in tables] if isinstance(older, str) and older.strip() else []
    return tuple(made)
