"""Everything that is stored is read back as it was; anything else is refused with a clear error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator.errors import ConfigurationError, TargetError
from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    decimal,
)
from replicator.sources.base import KeyRange
from replicator.sources.mysql.offset import BinlogOffset, GtidPosition, GtidSet, parse_offset
from replicator.staging.naming import folder_name
from replicator.state.chunks import ChunkToRead, Mark, high_mark, low_mark, opened_mark, parse_mark
from replicator.state.journal import DDL_OPERATIONS
from replicator.targets.base import Position
from replicator.targets.iceberg.table.position import _said, as_properties
from tests.property.budget import examples
from webapp.console.views.draft_selection import Selected
from webapp.replicators.options import IGNORABLE, ReplicatorOptions

FEW = settings(max_examples=examples(60, 2000), deadline=None)
NAME = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=64)
TABLE = st.builds(TableId, NAME, NAME)
UUID = st.uuids().map(str)
RANGES = st.lists(st.tuples(st.integers(1, 2**62), st.integers(0, 1000)), min_size=1, max_size=5)
MYSQL_SET = st.dictionaries(
    UUID | st.tuples(UUID, st.from_regex(r"[a-z_][a-z0-9_]{0,9}", fullmatch=True)).map(":".join), RANGES, max_size=4
)
MARIADB = st.dictionaries(
    st.integers(0, 2**32 - 1), st.tuples(st.integers(1, 2**32 - 1), st.integers(1, 2**63)), max_size=4
)
SIMPLE = (BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, STRING, BINARY, DATE, TIMESTAMP_NTZ, TIMESTAMP)
TYPE = st.sampled_from(SIMPLE) | st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: decimal(p, s)))
COLUMN = st.builds(Column, NAME, TYPE, st.booleans(), st.text(max_size=40), st.sampled_from(["", "it becomes text"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def stored(value: Any) -> Any:
    """Through the text that the database keeps."""
    return json.loads(json.dumps(value))


@st.composite
def schemas(draw: st.DrawFn) -> TableSchema:
    columns = draw(st.lists(COLUMN, min_size=1, max_size=8, unique_by=lambda column: column.name))
    key = draw(st.lists(st.sampled_from([column.name for column in columns]), unique=True, max_size=3))
    return TableSchema(draw(TABLE), tuple(columns), tuple(key))


@FEW
@given(MYSQL_SET)
def test_gtid_sets_survive_their_text(ranges: dict[str, list[tuple[int, int]]]) -> None:
    made = GtidSet()
    for source, intervals in ranges.items():
        for first, more in intervals:
            made.add(source, first, first + more)
    again = GtidSet.parse(str(made))
    assert again.sources == {source: found for source, found in made.sources.items() if found}
    assert again in made
    assert str(GtidPosition(str(made))) == str(made)
    for source, intervals in ranges.items():
        for first, more in intervals:
            assert any(low <= first and first + more <= high for low, high in again.sources[source])


@FEW
@given(st.text(min_size=1, max_size=20), st.integers(0, 2**63), MARIADB)
def test_offsets_survive_their_json(file: str, position: int, domains: dict[int, tuple[int, int]]) -> None:
    gtid = ",".join(f"{domain}-{server}-{number}" for domain, (server, number) in sorted(domains.items()))
    offset = BinlogOffset(file, position, gtid)
    again = parse_offset(stored(offset.to_dict()))
    assert (again.file, again.position, again.gtid) == (file, position, gtid)
    assert str(GtidPosition(again.gtid)) == gtid


@FEW
@given(JSON)
def test_what_is_no_offset_schema_or_options_is_refused(data: Any) -> None:
    for read in (parse_offset, TableSchema.from_dict, ReplicatorOptions.from_dict):
        for value in (data, {"kind": "mysql", "file": "b.1", "position": data},
            {"database": "d", "table": "t", "columns": data, "key": []},
                      {"ddl_policy": data}, {"slo_minutes": data}, {"zero_dates": data}):  # fmt: skip
            try:
                read(value)  # type: ignore[operator]
            except ConfigurationError as error:
                assert error.message  # noqa: PT017 - either it is read or it is this


@pytest.mark.parametrize(
    "gtid", ["x", "0-1", "uuid:", ":1", "3e11fa47-71ca-11e1-9e33-c80aa9429562:5-1", "3e11fa47:0", "a:b"]
)
def test_an_offset_whose_gtids_are_none_is_refused(gtid: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_offset({"kind": "mysql", "file": "b.1", "position": 4, "gtid": gtid})


@FEW
@given(schemas())
def test_schemas_survive_their_json(schema: TableSchema) -> None:
    assert TableSchema.from_dict(stored(schema.to_dict())) == schema
    assert all(DataType.parse(str(column.type)) == column.type for column in schema.columns)


def test_older_forms_have_defaults_and_later_ones_are_refused() -> None:
    assert parse_offset({"kind": "mysql", "file": "b.1", "position": 4}).gtid == ""
    with pytest.raises(ConfigurationError, match="epoch"):
        parse_offset({"kind": "mysql", "file": "b.1", "position": 4, "gtid": "", "epoch": 2})
    column = {"name": "a", "type": "int", "nullable": False, "source_type": "int"}
    data: dict[str, Any] = {"database": "d", "table": "t", "columns": [column], "key": ["a"]}
    assert TableSchema.from_dict(data).columns[0].warning == ""
    for later in (
        data | {"partition": []},
        data | {"columns": [column | {"mask": True}]},
        data | {"columns": [column | {"type": "interval"}]},
        data | {"key": ["b"]},
    ):
        with pytest.raises(ConfigurationError):
            TableSchema.from_dict(later)
    assert ReplicatorOptions.from_dict({}) == ReplicatorOptions()
    with pytest.raises(ConfigurationError, match="merge_order"):
        ReplicatorOptions.from_dict({"merge_order": 1})


@FEW
@given(st.integers(0, 10**18 - 1), st.integers(0, 10**18 - 1), st.from_regex(r"[0-9a-f]{8}", fullmatch=True), TABLE)
def test_marks_survive_their_tokens(run: int, number: int, attempt: str, table: TableId) -> None:
    chunk = ChunkToRead(number, run, table, attempt, KeyRange(), keyless=False)
    for kind, mark in (("L", low_mark), ("O", opened_mark), ("H", high_mark)):
        assert len(mark(chunk)) <= 255
        assert parse_mark(mark(chunk)) == Mark(kind, run, number, attempt)


@FEW
@given(
    st.text(max_size=30)
    | st.lists(st.sampled_from(["L", "O", "H", "1", "²", "٣", "", "-1", "9" * 30, " 1"]), max_size=5).map(":".join)
)
def test_a_token_of_somebody_else_is_no_mark(token: str) -> None:
    found = parse_mark(token)
    assert (
        found is None
        or f"{found.kind}:{found.run}:{found.chunk}:{found.attempt}" == token
        or token.split(":")[1].startswith("0")
        or (token.split(":")[2].startswith("0"))
    )


@FEW
@given(TABLE, TABLE)
def test_folders_are_safe_and_of_one_table_only(one: TableId, other: TableId) -> None:
    assert (folder_name(one) == folder_name(other)) == (one == other)
    assert set(folder_name(one)) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-")
    assert len(folder_name(one)) <= 80


@FEW
@given(st.integers(-1, 2**63 - 1), st.integers(-1, 2**63 - 1), st.integers(0, 10**6), st.text(max_size=32))
def test_positions_survive_a_commits_properties(applied: int, loaded: int, version: int, load: str) -> None:
    at = Position(applied, loaded, version, load)
    assert _said(stored(as_properties(at)), version) == at
    assert _said({}, version) is None


def test_a_position_that_somebody_has_changed_is_refused() -> None:
    with pytest.raises(TargetError, match="expected a sequence number"):
        _said({"tidemark.applied": "many"}, 1)


ACTIONS = st.fixed_dictionaries(
    {op: st.sampled_from(["apply", "stop", *(["ignore"] if op in IGNORABLE else [])]) for op in DDL_OPERATIONS}
)
OPTIONS = st.builds(
    ReplicatorOptions,
    slo_percent=st.floats(0.1, 100),
    slo_minutes=st.floats(0.05, 1440),
    retry_minutes=st.floats(0, 10080),
    initial_snapshot=st.booleans(),
    ddl_policy=ACTIONS,
    zero_dates=st.sampled_from(["null", "text", "fail"]),
    on_table_failure=st.sampled_from(["continue", "stop"]),
    on_log_lost=st.sampled_from(["stop", "start_anew"]),
    on_decode_error=st.sampled_from(["stop", "dead_letter"]),
    retention_warn_percent=st.floats(1, 100),
    retention_steps=st.sampled_from(["", "10m/1s 2h/1m 7d/1h", "1h/1m"]),
    deletion_grace_hours=st.one_of(st.none(), st.floats(0, 8760)),
    snapshot_parallel=st.integers(1, 16),
    merge_parallel=st.integers(1, 16),
    snapshot_paused=st.booleans(),
    snapshot_chunk_seconds=st.floats(0.05, 60),
    snapshot_chunk_rows=st.integers(1, 262_144),
    snapshot_delay_seconds=st.floats(0, 3600),
    snapshot_most_running=st.integers(0, 1_000_000),
    snapshot_most_lag_seconds=st.floats(0, 86_400),
    signal_table=st.sampled_from(["", "shop.signals", "a b.c.d"]),
)


@FEW
@given(OPTIONS)
def test_options_survive_their_json(options: ReplicatorOptions) -> None:
    assert ReplicatorOptions.from_dict(stored(options.to_dict())) == options


@FEW
@given(
    st.builds(
        Selected,
        st.sets(NAME, max_size=3),
        st.sets(TABLE, max_size=3),
        st.sets(TABLE, max_size=3),
        st.dictionaries(TABLE, st.sets(NAME, min_size=1), max_size=3),
    )
)
def test_a_draft_selection_survives_its_json(selected: Selected) -> None:
    assert Selected.from_dict(stored(selected.to_dict())) == selected


@FEW
@given(st.dictionaries(st.sampled_from(["password", "ca"]), st.text(max_size=200)))
def test_secrets_survive_their_token_and_do_not_show(secrets: dict[str, str]) -> None:
    from webapp.connections.secrets import seal, unseal

    token = seal(secrets)
    assert unseal(token) == secrets
    assert not any(len(secret) > 3 and secret in token for secret in secrets.values())


def test_secrets_under_another_key_are_refused() -> None:
    from webapp.connections.secrets import seal, unseal

    token = seal({"password": "s3cret"})
    for damaged in (token[:-4], token[:20] + ("A" if token[20] != "A" else "B") + token[21:], "x"):
        with pytest.raises(ConfigurationError, match="cannot be decrypted"):
            unseal(damaged)
