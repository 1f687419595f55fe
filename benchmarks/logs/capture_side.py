"""Our side of a comparison: a capture process (see `capture_process`) over a log that begins here.

The clock starts before the source is connected; a row counts when its segment is durable and committed.  As in
production, the last commit waits for its second.  So where there are several commits, the speed is taken up to the last
but one, though all rows are read.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.logs.capture_process import REPLICATOR
from benchmarks.logs.log_reading import LogReader, Speed, Stamp, python
from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.registry import source_kind


@dataclass(frozen=True)
class Log:
    """What one table's log has from `offset` (Tidemark's) on."""

    kind: str
    config: Mapping[str, str]
    table: TableId
    offset: Mapping[str, Any]
    folder: Path


def begin(kind: str, config: Mapping[str, str], table: TableId, folder: Path) -> Log:
    """The log from here on; the table is there already, and so is what `config` names."""
    with closing(source_kind(kind).open(config)) as source:
        state = source.log(REPLICATOR).prepare(TableSet(tables=frozenset({table})), first=True)
    return Log(kind, config, table, state.offset.to_dict(), folder)


@contextmanager
def captured(log: Log, rows: int) -> Iterator[LogReader]:
    """Run capture up to `rows` rows; its staged files are deleted after the block."""
    staging = log.folder / "staging"
    orders = {
        "kind": log.kind, "config": log.config, "tables": [(log.table.database, log.table.name)], "offset": log.offset,
        "rows": rows, "staging": str(staging),
    }  # fmt: skip
    try:
        with LogReader("capture", python("benchmarks.logs.capture_process"), json.dumps(orders), log.folder) as reader:
            yield reader
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def throughput(stamps: list[Stamp]) -> Speed:
    """See above; the first stamp is that of the beginning."""
    return Speed.between(stamps[0], stamps[-2] if len(stamps) > 2 else stamps[-1])
