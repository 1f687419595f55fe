"""Partitioned tables without Spark: rows end as their source, in the partitions that Iceberg's own writers choose."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
import pyarrow as pa
import pytest
from pyiceberg.transforms import BucketTransform

from replicator.errors import ConfigurationError, UnsupportedDdl
from replicator.model.mode import Mode
from replicator.targets import parquet_files
from replicator.targets.base import Append, Create, DeleteBelow, Evolve, Merge, Replace, TargetTable
from replicator.targets.iceberg.direct import writer
from replicator.targets.iceberg.direct.partitions import Partition, PartitionSpec, grouped, present_spec
from replicator.targets.iceberg.direct.writer import DirectLimits
from replicator.targets.iceberg.layout import Layout
from replicator.targets.iceberg.table.naming import sql_name
from replicator.targets.iceberg.target import IcebergTarget
from replicator.targets.iceberg.upkeep import maintenance
from tests.integration.direct.play import Play
from tests.integration.spark.lake import Lake
from tests.integration.spark.mode_models import Model
from tests.staged import TS, Row, delete, insert, read, schema_of, update

pytestmark = pytest.mark.spark
NUMBERS = itertools.count(1)
KEYED = schema_of({"id": "int", "at": "date", "n": "int", "v": "string"}, ["id"])
SPARK_TRANSFORMS = {"year": "years", "month": "months", "day": "days", "hour": "hours"}
DAY = dt.date(1969, 12, 30)


def target(lake: Lake, partition_by: str, **settings: str) -> IcebergTarget:
    layout = Layout.parse({"partition_by": f"*.*: {partition_by}" if partition_by else "", **settings})
    return IcebergTarget(lake.spark, lake.storage, "r1", layout=layout)


def new_table(writer: IcebergTarget, schema: Any, mode: Mode = Mode.MIRROR) -> TargetTable:
    table = TargetTable("shop", f"parts{next(NUMBERS)}")
    writer.apply(table, Create(schema, 1, -1, "L1", mode))
    return table


def in_spark(lake: Lake, table: TargetTable) -> Counter[Row]:
    with lake.spark.session({}) as spark:
        found = spark.table(sql_name(table)).toArrow()
    names = [name for name in found.column_names if name != "_sequence_num"]
    return Counter(zip(*(found.column(name).to_pylist() for name in names), strict=True))


def in_duckdb(lake: Lake, table: TargetTable) -> Counter[Row]:
    with duckdb.connect() as connection:
        for package in (duckdb_extension_avro, duckdb_extension_iceberg):
            (extension,) = Path(str(package.__file__)).parent.rglob("*.duckdb_extension")
            connection.load_extension(str(extension))
        connection.execute("SET TimeZone = 'UTC'")
        metadata = lake.reader().load_table((table.namespace, table.name)).metadata_location.replace("file:///", "/")
        query = "SELECT * EXCLUDE (_sequence_num) FROM iceberg_scan(?, metadata_compression_codec => 'gzip')"
        rows: list[Any] = connection.execute(query, [metadata]).fetchall()
    return Counter(rows)


def misplaced(lake: Lake, table: TargetTable) -> int:
    """Rows whose file is in another partition of the present spec than Spark computes for them."""
    loaded = lake.reader().load_table((table.namespace, table.name))
    spec, names = loaded.spec(), {field.field_id: field.name for field in loaded.schema().fields}
    wrong = []
    for field in spec.fields:
        word, _, width = str(field.transform).partition("[")
        column = f"`{names[field.source_id]}`"
        function = SPARK_TRANSFORMS.get(word, word)
        arguments = f"{width.removesuffix(']')}, {column}" if width else column
        value = column if word == "identity" else f"lake.system.{function}({arguments})"
        wrong.append(f"NOT (_partition.`{field.name}` <=> {value})")
    with lake.spark.session({}) as spark:
        query = f"SELECT count(*) FROM {sql_name(table)} WHERE _spec_id = {spec.spec_id} AND ({' OR '.join(wrong)})"
        return int(spark.sql(query).collect()[0][0])


DAYS = [0, -1, 1, -365, -366, 59, 11016, -25567, -719162, 2932896, 10_000_000, -800_000]  # 29349, 222 BC
MICROS = [0, -1, 1, -3_600_000_000, -3_600_000_001, 86_400_000_000, -62_135_596_800_000_000, 2**62, -(2**60)]
DECIMALS = [0, 1, -1, 127, 128, -128, -129, 255, 256, 32767, 32768, -32768, -32769, 10**17]
EDGES: Mapping[str, list[Any]] = {
    "boolean": [True, False],
    "int": [0, 1, -1, 34, 2**31 - 1, -(2**31), -(2**31) + 3],
    "bigint": [0, 1, -1, 34, 2**63 - 1, -(2**63), -(2**63) + 3, 2**31, -(2**31)],
    "decimal(9,2)": [Decimal(n).scaleb(-2) for n in DECIMALS[:-1]],
    "decimal(38,10)": [Decimal(n).scaleb(-10) for n in DECIMALS],
    "string": ["", "a", "naïve", "😀é\0 x", "ab😀cd", "x" * 1000, "__HIVE_DEFAULT_PARTITION__", "a/b=c", "null"],
    "binary": [b"", b"\0", b"\xff\x00abc", b"12345", b"\x80" * 17],
    "date": DAYS,
    "timestamp": MICROS,
    "timestamp_ntz": MICROS,
}
WIDE = ["bucket(1, {})", "bucket(7, {})", "bucket(999999, {})", "truncate(1, {})", "truncate(10, {})"]
TIMED = ["year({})", "month({})", "day({})"]
TRANSFORMS = {
    "boolean": ["{}"],
    **{kind: ["{}", *WIDE] for kind in ("int", "bigint", "decimal(9,2)", "decimal(38,10)", "string", "binary")},
    "date": ["{}", *WIDE[:3], *TIMED],
    **{kind: ["{}", *WIDE[:3], *TIMED, "hour({})"] for kind in ("timestamp", "timestamp_ntz")},
}


@pytest.mark.parametrize("kind", TRANSFORMS)
def test_partitions_are_those_of_icebergs_own_writers(lake: Lake, kind: str) -> None:
    random, schema = Random(kind), schema_of({"id": "int", "c": kind}, ["id"])
    values = [*EDGES[kind], None]
    if kind in {"int", "bigint"}:
        bits = 31 if kind == "int" else 63
        values += [random.randint(-(2**bits), 2**bits - 1) for _ in range(40)]
    if kind in {"date", "timestamp", "timestamp_ntz"}:
        values += [random.randint(min(EDGES[kind]), max(EDGES[kind])) for _ in range(40)]
    if kind.startswith("decimal"):
        scale = schema.column("c").type.scale
        values += [Decimal(random.randint(-(10**8), 10**8)).scaleb(-scale) for _ in range(40)]
    column = pa.array(values, schema.column("c").type.arrow)
    for transform in TRANSFORMS[kind]:
        table = lake.target._catalog.require(new_table(target(lake, transform.format("c")), schema))
        spec, java = present_spec(table), table.engine.java
        handle, iceberg = table.handle.spec(), table.handle.schema()
        key = java("org.apache.iceberg.PartitionKey")(handle, iceberg)
        ours = {row: part for part, rows in grouped(spec.fields, [column]) for row in rows}
        (source,) = spec.fields
        as_row = type(spec)(0, (type(source)(source.source, source.source, "identity", table.fields[1]["type"]),))
        rows = {row: part for part, found in grouped(as_row.fields, [column]) for row in found}
        assert sorted(ours) == list(range(len(column)))
        for row in range(len(column)):
            record = java("org.apache.iceberg.SingleValueParser.fromJson")(
                iceberg.asStruct(), json.dumps({"1": 1, **struct(as_row, rows[row])})
            )
            key.partition(record)
            text = java("org.apache.iceberg.SingleValueParser.toJson")(handle.partitionType(), key)
            said = json.loads(text).get(str(spec.fields[0].number))
            assert spec.partition([said]) == ours[row], (transform, values[row])
            back = java("org.apache.iceberg.SingleValueParser.fromJson")(
                handle.partitionType(), json.dumps(struct(spec, ours[row]))
            )
            again = java("org.apache.iceberg.SingleValueParser.toJson")(handle.partitionType(), back)
            assert again == text, (transform, values[row])


def struct(spec: PartitionSpec, partition: Partition) -> dict[str, Any]:
    """In the form of Iceberg's `SingleValueParser`."""
    pairs = zip(spec.fields, spec.as_json(partition), strict=True)
    return {str(one.number): value for one, value in pairs if value is not None}


def test_a_truncation_that_the_type_cannot_hold_stops_the_table_with_a_sentence(lake: Lake) -> None:
    schema = schema_of({"id": "int", "c": "decimal(4,2)"}, ["id"])
    writer = target(lake, "truncate(10, c)")
    table = new_table(writer, schema)
    writer.apply(table, Merge([lake.segment(schema, [insert(0, 1, Decimal("-99.90"))])], schema, 0))
    with pytest.raises(ConfigurationError, match=r"truncate\(10, …\) .* below what decimal128\(4, 2\) can hold"):
        writer.apply(table, Merge([lake.segment(schema, [insert(1, 2, Decimal("-99.91"))])], schema, 1))
    assert in_spark(lake, table) == Counter([(1, Decimal("-99.90"))])


LAYOUTS = [
    (("int",), "bucket(4, k 0)"),
    (("string",), "truncate(7, k 0), v.0"),
    (("bigint", "string"), "bucket(3, k 1), day(v.12)"),
    (("decimal(12,2)", "date"), "bucket(3, k 0), year(k 1)"),
    (("binary",), "truncate(1, k 0), month(v.10)"),
    (("timestamp", "int"), "hour(k 0), truncate(999999, v.1)"),
    (("timestamp_ntz",), "day(k 0), bucket(2, v.8)"),
    (("date",), "k 0"),
    (("decimal(30,0)",), "truncate(900000, v.3), bucket(5, k 0)"),
]


@pytest.mark.parametrize(("keys", "partition_by"), LAYOUTS, ids=[layout for _, layout in LAYOUTS])
def test_random_batches_end_as_their_source(lake: Lake, keys: tuple[str, ...], partition_by: str) -> None:
    play = Play(Random(f"partitions {keys}"), keys, keyspace=30)
    ours = target(lake, partition_by)
    table = new_table(ours, play.schema)
    for number in range(8):
        if number == 4:  # files of two specs from now on
            ours = target(lake, "bucket(2, v.1)")
            ours.maintain(table)
        if number == 6:
            ours = target(lake, "" if partition_by.startswith("bucket") else partition_by)
            ours.maintain(table)
        segment = lake.segment(play.schema, play.batch(play.random.randint(1, 30)))
        how = ours.apply(table, Merge([segment], play.schema, play.seq)).how
        assert how in {"merge (direct)", "append (direct)"}
        assert Counter(lake.rows(table)) == Counter(play.rows.values())
        if number in {3, 5}:
            assert misplaced(lake, table) == 0
    assert in_spark(lake, table) == Counter(play.rows.values())
    assert in_duckdb(lake, table) == Counter(play.rows.values())
    below = DeleteBelow(play.seq - 10, play.seq + 1)
    kept = [row[-1] >= play.seq - 10 for row in lake.rows(table, sequence=True)]
    done = ours.apply(table, below)
    assert (done.how, done.deleted) == ("delete (direct)", kept.count(False))
    assert sum(in_spark(lake, table).values()) == kept.count(True)


@pytest.mark.parametrize("mode", [Mode.SOFT_DELETE, Mode.HISTORY, Mode.CHANGELOG])
def test_each_mode_ends_as_its_model(lake: Lake, mode: Mode) -> None:
    play = Play(Random(f"parts {mode}"), ("bigint", "string"), keyspace=12)
    model = Model(tuple(play.schema.names.index(name) for name in play.keys))
    ours = target(lake, "bucket(3, k 0), day(v.12)")
    table = new_table(ours, play.schema, mode)
    for number in range(6):
        if number == 3:
            ours = target(lake, "truncate(2, k 1)")
            ours.maintain(table)
        changes = play.batch(play.random.choice((3, 20)))
        for change in changes:
            model.apply(change)
        how = ours.apply(table, Merge([lake.segment(play.schema, changes)], play.schema, play.seq)).how
        assert how.endswith("(direct)")
        assert Counter(lake.rows(table, sequence=True)) == Counter(model.rows(mode)), number
        assert misplaced(lake, table) == 0
    upto = play.next()
    ours.apply(table, DeleteBelow(upto - 5, upto, "SWEEP", TS + dt.timedelta(days=1)))
    model.below(upto - 5, TS + dt.timedelta(days=1), upto, "SWEEP")
    assert Counter(lake.rows(table, sequence=True)) == Counter(model.rows(mode))


def row(n: int) -> Row:
    return (n, None if n % 10 == 3 else DAY + dt.timedelta(days=n % 10), n % 7, f"row {n}")


def files_of(lake: Lake, table: TargetTable) -> Counter[Any]:
    """Data files by their partition, in the present spec."""
    return Counter(
        tuple(task.file.partition) for task in lake.reader().load_table(("shop", table.name)).scan().plan_files()
    )


def test_an_initial_load_writes_a_file_for_each_partition(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = target(lake, "day(at)")
    table = new_table(ours, KEYED)
    parts = [lake.segment(KEYED, [read(n, *row(n)) for n in range(first, first + 50)]) for first in (0, 50, 100, 150)]
    assert ours.apply(table, Append(parts, KEYED, 199)).how == "append (direct)"
    assert Counter(lake.rows(table)) == Counter(map(row, range(200)))
    assert (len(files_of(lake, table)), set(files_of(lake, table).values())) == (10, {writer.WRITERS})
    assert misplaced(lake, table) == 0
    monkeypatch.setattr(parquet_files, "OPEN_FILES", 3)
    monkeypatch.setattr(parquet_files, "SPLIT_ROWS", 10)
    monkeypatch.setattr(parquet_files, "FILE_BYTES", 400)
    more = lake.segment(KEYED, [read(n, *row(n)) for n in range(200, 300)])
    assert ours.apply(table, Append([more], KEYED, 299)).how == "append (direct)"
    assert Counter(lake.rows(table)) == Counter(map(row, range(300)))
    assert misplaced(lake, table) == 0


def test_more_partitions_than_a_commit_takes_are_sparks(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MAX_FILES", 4)
    ours = target(lake, "day(at)")
    table = new_table(ours, KEYED)
    place = Path(lake.reader().load_table(("shop", table.name)).location().removeprefix("file://")) / "data"
    loaded = lake.segment(KEYED, [read(n, *row(n)) for n in range(20)])
    assert ours.apply(table, Append([loaded], KEYED, 19)).how == "append (Spark: more than 4 files for its partitions)"
    changes = [update(20 + n, row(n), (*row(n)[:3], "new")) for n in range(9)]
    how = ours.apply(table, Merge([lake.segment(KEYED, changes)], KEYED, 28)).how
    assert how == "merge (Spark: more than 4 files for its partitions)"
    assert Counter(lake.rows(table)) == Counter([*((*row(n)[:3], "new") for n in range(9)), *map(row, range(9, 20))])
    assert not [path for path in place.glob("*.parquet") if "-" not in path.name]  # ours, of the attempts


def test_a_partition_column_that_becomes_wider_is_found_in_older_files(lake: Lake) -> None:
    ours = target(lake, "n, bucket(4, id), truncate(10, id)")
    table = new_table(ours, KEYED)
    ours.apply(table, Merge([lake.segment(KEYED, [insert(n, *row(n)) for n in range(20)])], KEYED, 19))
    least = -(2**31)  # where truncation wraps around
    ours.apply(table, Merge([lake.segment(KEYED, [insert(20, least, DAY, 1, "least")])], KEYED, 20))
    wide = schema_of({"id": "bigint", "at": "date", "n": "bigint", "v": "string"}, ["id"])
    ours.apply(table, Evolve(wide, 2))
    changes = [update(30 + n, row(n), (*row(n)[:2], 2**40, "wide")) for n in range(10)]
    changes += [update(40, (least, DAY, 1, "least"), (least, DAY, 2, "still"))]
    assert ours.apply(table, Merge([lake.segment(wide, changes, 2)], wide, 40)).how == "merge (direct)"
    expected = [*((*row(n)[:2], 2**40, "wide") for n in range(10)), *map(row, range(10, 20)), (least, DAY, 2, "still")]
    assert Counter(lake.rows(table)) == Counter(expected)
    assert in_spark(lake, table) == Counter(expected)


@pytest.fixture
def _never_in_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: object) -> int:
        raise AssertionError(args)

    monkeypatch.setattr(maintenance, "_compact", never)


@pytest.mark.usefixtures("_never_in_spark")
def test_small_files_stay_few_in_each_partition(lake: Lake) -> None:
    ours, random = target(lake, "bucket(3, id)"), Random(3)
    table = new_table(ours, KEYED)
    rows: dict[int, Row] = {}
    seq, most, rewritten = 0, 0, 0
    for _ in range(30):
        changes = []
        for key in random.sample(range(100), 9):
            new = (key, DAY, seq, "v")
            changes.append(update(seq, rows[key], new) if key in rows else insert(seq, *new))
            rows[key], seq = new, seq + 1
        assert ours.apply(table, Merge([lake.segment(KEYED, changes)], KEYED, seq - 1)).how.endswith("(direct)")
        rewritten += "compacted" in ours.maintain(table)
        most = max(most, *files_of(lake, table).values())
    assert Counter(lake.rows(table)) == Counter(rows.values())
    assert (misplaced(lake, table), most <= 9, 2 <= rewritten <= 8) == (0, True, True)


@pytest.mark.usefixtures("_never_in_spark")
def test_files_of_an_older_spec_come_under_the_new_one_when_they_are_compacted(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "SMALL_FILES", 3)
    first = target(lake, "n")
    table = new_table(first, KEYED)
    for n in range(6):
        first.apply(table, Merge([lake.segment(KEYED, [insert(n, n, DAY, 1, "x")])], KEYED, n))
    second = target(lake, "bucket(2, id)")
    assert "compacted 6 files" in second.maintain(table)
    assert len(files_of(lake, table)) == 2
    assert misplaced(lake, table) == 0
    change = Merge([lake.segment(KEYED, [update(10, (1, DAY, 1, "x"), (1, DAY, 1, "y"))])], KEYED, 10)
    assert second.apply(table, change).how == "merge (direct)"
    assert Counter(lake.rows(table)) == Counter((n, DAY, 1, "y" if n == 1 else "x") for n in range(6))


def test_a_width_that_changes_leaves_no_name_to_two_fields(lake: Lake) -> None:
    """Spark's merge reads the fields of all specs by their names."""
    widths = ("bucket(3, id)", "bucket(5, id)", "truncate(10, n)", "truncate(20, n), bucket(3, id)", "id")
    table = new_table(target(lake, widths[0]), KEYED)
    for n, partition_by in enumerate(widths):
        layout = Layout.parse({"partition_by": f"*.*: {partition_by}"})
        ours = IcebergTarget(lake.spark, lake.storage, "r1", layout=layout, limits=DirectLimits(rows=-1))
        ours.maintain(table)
        rows = [insert(n, n, DAY, 1, "x")] if n == 0 else [update(n, (n - 1, DAY, 1, "x"), (n, DAY, 1, "x"))]
        assert "Spark" in ours.apply(table, Merge([lake.segment(KEYED, rows)], KEYED, n)).how
        assert lake.rows(table) == [(n, DAY, 1, "x")]
        assert misplaced(lake, table) == 0
    specs = lake.reader().load_table((table.namespace, table.name)).specs().values()
    assert {field.name for spec in specs for field in spec.fields} == {
        "id_bucket",
        "id_bucket_5",
        "n_trunc",
        "n_trunc_20",
        "id",
    }


def test_a_field_is_not_named_as_a_column_is(lake: Lake) -> None:
    schema = schema_of({"id": "int", "id_bucket": "int", "id_bucket_3": "int"}, ["id"])
    layouts = ("bucket(3, id), id_bucket, bucket(4, id)", "id_bucket_3, bucket(3, id)")
    table = new_table(target(lake, layouts[0]), schema)
    for n, partition_by in enumerate(layouts):
        ours = target(lake, partition_by)
        ours.maintain(table)
        ours.apply(table, Merge([lake.segment(schema, [insert(n, n, n, n)])], schema, n))
    specs = lake.reader().load_table((table.namespace, table.name)).specs()
    named = [[field.name for field in specs[number].fields] for number in sorted(specs)]
    assert named == [["id_bucket_2", "id_bucket", "id_bucket_4"], ["id_bucket_2", "id_bucket_3"]]
    assert sorted(lake.rows(table)) == [(0, 0, 0), (1, 1, 1)]


@pytest.mark.parametrize(
    ("columns", "renamed", "name"),
    [
        (["id", "v", "id_bucket"], {}, "id_bucket"),
        (["id", "id_bucket"], {"v": "id_bucket"}, "id_bucket"),
        (["id", "w", "v"], {"v": "w"}, "v"),
    ],
)
def test_a_new_column_that_is_named_as_a_partition_is_told_and_the_table_made_again(
    lake: Lake, columns: list[str], renamed: dict[str, str], name: str
) -> None:
    before, after = schema_of({"id": "int", "v": "int"}, ["id"]), schema_of(dict.fromkeys(columns, "int"), ["id"])
    table = new_table(target(lake, "bucket(3, id), v"), before)
    ours = target(lake, "bucket(5, id)")
    ours.maintain(table)
    with pytest.raises(UnsupportedDdl, match=f"has partitions named {name}") as raised:
        ours.apply(table, Evolve(after, 2, renamed))
    assert "Resnapshot" in (raised.value.remedy or "")
    ours.apply(table, Create(after, 2, -1, "L2"))
    row = tuple(range(len(columns)))
    ours.apply(table, Merge([lake.segment(after, [insert(0, *row)])], after, 0))
    assert lake.rows(table) == [row]


@pytest.mark.long
def test_spark_writes_more_partitions_than_its_heap_has_room_for_files(lake: Lake) -> None:
    keyless = schema_of({"n": "int", "v": "string"})
    ours = target(lake, "n")
    table = new_table(ours, keyless)
    rows = [read(n, n, "x") for n in range(3000)]
    assert ours.apply(table, Replace([lake.segment(keyless, rows)], keyless, 1, -1, 3000, "L1")).how == "replace"
    gone = lake.segment(keyless, [delete(4000 + n, n, "x") for n in range(2000)])
    assert "Spark" in ours.apply(table, Merge([gone], keyless, 6000)).how
    assert sorted(lake.rows(table)) == [(n, "x") for n in range(2000, 3000)]


def test_tables_of_before_are_written_sorted_too(lake: Lake) -> None:
    ours = target(lake, "n")
    table = new_table(ours, KEYED)
    stored = lake.reader().load_table((table.namespace, table.name))
    with stored.transaction() as transaction:
        transaction.remove_properties("write.spark.fanout.enabled")
    ours.maintain(table)
    assert stored.refresh().properties["write.spark.fanout.enabled"] == "false"


def test_names_that_two_fields_have_already_are_told_apart(lake: Lake) -> None:
    """Of a version that named a field by its column and transform alone."""
    table = new_table(target(lake, "bucket(3, id)"), KEYED)
    stored = lake.reader().load_table((table.namespace, table.name))
    with stored.update_spec() as update:
        update.remove_field("id_bucket")
    with stored.update_spec() as update:
        update.add_field("id", BucketTransform(5), "id_bucket")
    layout = Layout.parse({"partition_by": "*.*: bucket(5, id)"})
    ours = IcebergTarget(lake.spark, lake.storage, "r1", layout=layout, limits=DirectLimits(rows=-1))
    ours.maintain(table)
    for n in range(2):
        assert "Spark" in ours.apply(table, Merge([lake.segment(KEYED, [insert(n, n, DAY, 1, "x")])], KEYED, n)).how
    assert len(lake.rows(table)) == 2
    specs = lake.reader().load_table((table.namespace, table.name)).specs()
    assert [field.name for number in sorted(specs) for field in specs[number].fields] == [
        "id_bucket", "id_bucket", "id_bucket_5",
    ]  # fmt: skip


def test_a_keyless_table_is_partitioned_too(lake: Lake) -> None:
    keyless = schema_of({"n": "int", "v": "string"})
    ours = target(lake, "truncate(10, n)")
    table = new_table(ours, keyless)
    segment = lake.segment(keyless, [insert(n, n, "x") for n in range(30)])
    assert ours.apply(table, Merge([segment], keyless, 29)).how == "append (direct)"
    gone = lake.segment(keyless, [update(30, (5, "x"), (25, "x"))])
    assert ours.apply(table, Merge([gone], keyless, 30)).how.endswith("(Spark: no key)")
    again = lake.segment(keyless, [read(40, 7, "y"), read(41, 77, "y")])
    ours.apply(table, Replace([again], keyless, 1, 39, 41, "L2"))
    assert (sorted(lake.rows(table)), misplaced(lake, table)) == ([(7, "y"), (77, "y")], 0)
