"""Masks on Arrow against verification's own masks, which share no code with them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator.errors import SelectionDoesNotFit
from replicator.model.identifiers import TableId
from replicator.model.masks import Mask
from replicator.model.schema import BEFORE, Column, TableSchema
from replicator.model.types import DataType, decimal
from replicator.selection.masking import masked_rows, masked_schema, unmasked_schema
from replicator.verification.selected_rows import masked_type, masking
from replicator.verification.target import canonical

SALT = bytes(range(32))
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
MOMENT = st.datetimes()  # from year 1 to 9999
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXT,
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "boolean": st.booleans(),
    "date": st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31)),
    "timestamp_ntz": MOMENT,
    "timestamp": st.datetimes(timezones=st.just(dt.UTC)),
    "binary": st.binary(max_size=20),
    "float": st.floats(width=32),
    "double": st.floats(),
}
ICEBERG = {"bigint": "long", "timestamp_ntz": "timestamp", "timestamp": "timestamptz"}
MASKS = st.one_of(
    st.just({"kind": "null"}),
    st.just({"kind": "hash"}),
    st.builds(
        lambda value: {"kind": "fixed", "value": value}, TEXT | st.sampled_from(["7", "-3", "true", "1.50", "0"])
    ),
    st.builds(lambda a, b: {"kind": "partial", "first": a, "last": b}, st.integers(0, 8), st.integers(0, 8)),
)


@st.composite
def columns(draw: st.DrawFn) -> tuple[DataType, list[Any]]:
    kind = draw(st.sampled_from([*VALUES, "decimal"]))
    if kind != "decimal":
        return DataType.parse(kind), draw(st.lists(st.none() | VALUES[kind], min_size=1, max_size=8))
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    unscaled = st.integers(-(10**precision) + 1, 10**precision - 1)
    value = st.builds(lambda number: Decimal(f"{number}E-{scale}"), unscaled)
    return decimal(precision, scale), draw(st.lists(st.none() | value, min_size=1, max_size=8))


def iceberg(kind: DataType) -> str:
    return f"decimal({kind.precision}, {kind.scale})" if kind.precision else ICEBERG.get(str(kind), str(kind))


@settings(max_examples=400)
@given(columns(), MASKS)
def test_what_is_staged_is_what_the_proof_expects_or_the_mask_is_refused(
    column: tuple[DataType, list[Any]], mask: dict[str, Any]
) -> None:
    kind, values = column
    schema = TableSchema(TableId("s", "t"), (Column("c", kind, False, "source"),))
    try:
        masked = masked_schema(schema, {"c": Mask.from_dict(mask)})
    except SelectionDoesNotFit:
        return
    plain = pa.array(values, kind.arrow)
    data = pa.RecordBatch.from_arrays([plain, plain], names=["c", BEFORE + "c"])
    found = masked_rows(data, masked, SALT)
    rule = masking(mask, iceberg(kind), SALT)
    expected = [None if cell is None else rule(cell) for cell in canonical(plain)]
    assert canonical(found.column("c")) == expected
    assert canonical(found.column(BEFORE + "c")) == expected
    assert found.column("c").type == masked.column("c").type.arrow
    assert iceberg(masked.column("c").type) == masked_type(mask, iceberg(kind))
    assert unmasked_schema(masked) == schema
    assert TableSchema.from_dict(masked.to_dict()) == masked


@pytest.mark.parametrize("mask", [{"kind": "null"}, {"kind": "fixed", "value": "1"}, {"kind": "partial"}])
def test_a_key_is_hashed_or_refused(mask: dict[str, Any]) -> None:
    schema = TableSchema(TableId("s", "t"), (Column("id", DataType.parse("int"), False, "int"),), ("id",))
    with pytest.raises(SelectionDoesNotFit, match="key column id"):
        masked_schema(schema, {"id": Mask.from_dict(mask)})
    assert masked_schema(schema, {"id": Mask.from_dict("hash")}).column("id").type == DataType.parse("string")
