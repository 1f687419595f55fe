"""What a table holds besides the source's present rows, by its mode, and how to tell the present rows from the rest.

Written from docs/modes.md, without any of the pipeline's code.
"""

from __future__ import annotations

import marshal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression, EqualTo, IsNull, Or

from replicator.verification.digests import DIGEST_BYTES, MARSHAL_VERSION
from replicator.verification.model import TablePair
from replicator.verification.target import PinnedTable, batches, rows

MIRROR, SOFT_DELETE, HISTORY, CHANGELOG = "mirror", "soft_delete", "history", "changelog"
OWN: Mapping[str, Mapping[str, str]] = {
    MIRROR: {},
    SOFT_DELETE: {"_is_deleted": "boolean", "_deleted_at": "timestamptz"},
    HISTORY: {"_valid_from": "timestamptz", "_valid_to": "timestamptz", "_is_current": "boolean"},
    CHANGELOG: {"_operation": "string", "_commit_ts": "timestamptz", "_unchanged": "string", "_below": "long"},
}
_PRESENT: Mapping[str, BooleanExpression] = {
    SOFT_DELETE: Or(EqualTo("_is_deleted", False), IsNull("_is_deleted")),  # noqa: FBT003
    HISTORY: EqualTo("_is_current", True),  # noqa: FBT003
}
_VERSION = np.dtype([("key", "u8", 2), ("seq", "i8"), ("begun", "i8"), ("ended", "i8"), ("current", "?")])
_NEVER = np.iinfo(np.int64).max


def in_mode(target: PinnedTable, pair: TablePair) -> tuple[PinnedTable, list[str]]:
    """The table without the mode's own columns, only rows that the source has now; and what is wrong with these
    columns.
    """
    own = OWN[pair.mode]
    there = dict(target.columns)
    wrong = [
        f"column {name} of the mode {pair.mode} is {there.get(name, 'missing')} in the target, not {kind}"
        for name, kind in own.items()
        if there.get(name) != kind
    ]
    columns = tuple((name, kind) for name, kind in target.columns if name not in own)
    return replace(target, columns=columns, present=_PRESENT.get(pair.mode, AlwaysTrue())), wrong


def version_problems(target: PinnedTable, pair: TablePair, spill: Path, partition_rows: int) -> list[str]:
    """Sentences about versions of a key that overlap, or do not say which is the current one."""
    names = (*pair.key, "_sequence_num", *OWN[HISTORY])
    path, count = spill / "versions", 0
    with path.open("wb") as file:
        for batch in batches(replace(target, present=AlwaysTrue()), names):
            file.write(_versions(batch, pair.key).tobytes())
            count += batch.num_rows
    found = np.memmap(path, _VERSION, "r", shape=(count,)) if count else np.empty(0, _VERSION)
    parts = 1 + count // partition_rows
    overlapping = unclear = 0
    for part in range(parts):
        mine = np.array(found[found["key"][:, 0] % np.uint64(parts) == part])
        mine = mine[np.lexsort((mine["seq"], mine["key"][:, 1], mine["key"][:, 0]))]
        same = (mine["key"][1:] == mine["key"][:-1]).all(axis=1)
        overlapping += int((same & (mine["ended"][:-1] > mine["begun"][1:])).sum())
        overlapping += int((mine["begun"] > mine["ended"]).sum())
        unclear += int((mine["current"] != (mine["ended"] == _NEVER)).sum())
    said = {
        "versions overlap others of their key": overlapping,
        "versions do not say whether they are current": unclear,
    }
    return [f"{number} {text}" for text, number in said.items() if number]


def _versions(batch: pa.RecordBatch, key: Sequence[str]) -> np.ndarray:
    made = np.empty(batch.num_rows, _VERSION)
    digests = [
        blake2b(marshal.dumps(one, MARSHAL_VERSION), digest_size=DIGEST_BYTES).digest() for one in rows(batch, key)
    ]
    made["key"] = np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2)
    for field, name, null in (
        ("seq", "_sequence_num", -1),
        ("begun", "_valid_from", _NEVER),
        ("ended", "_valid_to", _NEVER),
    ):
        made[field] = batch.column(name).cast(pa.int64()).fill_null(null).to_numpy(zero_copy_only=False)
    made["current"] = batch.column("_is_current").fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003
    return made
