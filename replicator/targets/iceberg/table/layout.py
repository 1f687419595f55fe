"""Format, partitions, sort order and properties of a table, as Iceberg has them."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError

from replicator.errors import ConfigurationError
from replicator.targets.iceberg.jvm.engine import Engine
from replicator.targets.iceberg.jvm.errors import reason
from replicator.targets.iceberg.layout import PARTITION_BY, SORT_BY, Pairs, TableLayout

BLOOM = "write.parquet.bloom-filter-enabled.column."  # and a column's name
BLOOM_ADAPTIVE = "write.parquet.bloom-filter-adaptive-enabled"
# Spark's writers sort by partition, where they would keep a file open for each: of 750 no heap of ours has room.
SORTED = {"write.spark.fanout.enabled": "false"}
SOURCE = "tidemark.source"  # the property that says which table of the source it is
_FIRST_ID = 1000


def partition_spec(engine: Engine, schema: Any, ids: Mapping[str, int], layout: TableLayout, table: str) -> Any:
    """Iceberg's.  ConfigurationError where a column is missing, or its type has no such partitions."""
    for column, transform in layout.partitions:
        kind = schema.findType(_id(ids, column, PARTITION_BY, table))
        if not engine.java("org.apache.iceberg.transforms.Transforms.fromString")(transform).canTransform(kind):
            message = (
                f"{PARTITION_BY}: {column} of {table} has the type {kind.toString()}, which {transform} cannot take."
            )
            raise ConfigurationError(message, table=table, remedy=REMEDY)
    fields: list[dict[str, Any]] = []
    for number, (column, transform) in enumerate(layout.partitions):
        name = _name(column, transform, ids, [one["name"] for one in fields])
        source = _id(ids, column, PARTITION_BY, table)
        fields.append({"name": name, "transform": transform, "source-id": source, "field-id": _FIRST_ID + number})
    return _made(engine, "PartitionSpecParser", schema, {"spec-id": 0, "fields": fields}, PARTITION_BY, table)


def sort_order(engine: Engine, schema: Any, ids: Mapping[str, int], layout: TableLayout, table: str) -> Any:
    """As `partition_spec`."""
    fields = [
        {"transform": "identity", "source-id": _id(ids, column, SORT_BY, table), "direction": direction,
            "null-order": "nulls-first" if direction == "asc" else "nulls-last"}
        for column, direction in layout.sorts
    ]  # fmt: skip
    order = {"order-id": 1 if fields else 0, "fields": fields}
    return _made(engine, "SortOrderParser", schema, order, SORT_BY, table)


def _made(engine: Engine, parser: str, schema: Any, described: Mapping[str, Any], setting: str, table: str) -> Any:
    try:
        return engine.java(f"org.apache.iceberg.{parser}.fromJson")(schema, json.dumps(described))
    except Py4JJavaError as error:
        raise ConfigurationError(f"{setting}, {table}: {reason(error)}", table=table, remedy=REMEDY) from None


REMEDY = "Change the setting of the replicator's target, or leave the table out of it."


def _id(ids: Mapping[str, int], column: str, setting: str, table: str) -> int:
    if column not in ids:
        raise ConfigurationError(f"{setting}: {table} has no column {column}.", table=table, remedy=REMEDY)
    return ids[column]


def _name(column: str, transform: str, columns: Collection[str], named: Collection[str]) -> str:
    """As Iceberg's own writers name them; with the width, or a number, where another field or a column is named so."""
    word, _, width = transform.removesuffix("]").partition("[")
    plain = {"identity": column, "truncate": f"{column}_trunc"}.get(word, f"{column}_{word}")
    names = itertools.chain([plain], [f"{plain}_{width}"] * bool(width), (f"{plain}_{n}" for n in itertools.count(2)))
    taken = {*named, *columns} - ({column} - {*named} if word == "identity" else set())
    return next(name for name in names if name not in taken)


def follow(table: Any, wanted: TableLayout) -> bool:
    """Evolve what differs, for files that are written from now on; True where something did.

    `table`: an `IcebergTable`.  What names a column that the table no longer has is left out.
    """
    names = {str(one["name"]): int(one["id"]) for one in table.fields}
    by_id = {number: name for name, number in names.items()}
    changed = _follow_partitions(table, [one for one in wanted.partitions if one[0] in names], by_id)
    sorts = tuple(one for one in wanted.sorts if one[0] in names)
    if sorts != _sorts(table, by_id):
        update = table.handle.replaceSortOrder()
        for column, direction in sorts:
            getattr(update, direction)(column)
        update.commit()
        changed = True
    bloom = bloom_filters(sorted(identifier_names(table))) if wanted.bloom else {}
    unsaid = {} if not _spec(table) or SORTED.keys() <= table.properties.keys() else SORTED
    properties = {**unsaid, **bloom, **wanted.properties}
    if wanted.version > format_version(table):  # to a lower one Iceberg knows no way
        properties["format-version"] = str(wanted.version)
    lacking = {name: value for name, value in properties.items() if table.properties.get(name) != value}
    if lacking:
        update = table.handle.updateProperties()
        for name, value in lacking.items():
            update.set(name, value)
        update.commit()
    return changed or bool(lacking)


def bloom_filters(key: Sequence[str]) -> dict[str, str]:
    """Properties; without `adaptive`, Iceberg's own writer takes a MiB for each of them."""
    return {BLOOM_ADAPTIVE: "true", **{f"{BLOOM}{name}": "true" for name in key}} if key else {}


def format_version(table: Any) -> int:
    """Of Iceberg's format."""
    return int(table.metadata["format-version"])


def identifier_names(table: Any) -> set[str]:
    """Columns of the key, of a table that has identifier fields."""
    wanted = table.metadata["current-schema-id"]
    schema = next(one for one in table.metadata["schemas"] if one["schema-id"] == wanted)
    numbers = set(schema.get("identifier-field-ids", ()))
    return {str(one["name"]) for one in schema["fields"] if one["id"] in numbers}


def _follow_partitions(table: Any, wanted: Sequence[tuple[str, str]], by_id: Mapping[int, str]) -> bool:
    """No two fields of any specs have one name: Spark's merge reads those of all specs, by their names."""
    ids = {name: number for number, name in by_id.items()}
    named = _names_of_partitions(table)
    present = {(by_id.get(one["source-id"], ""), one["transform"]): str(one["name"]) for one in _spec(table)}
    if doubled := {one for one, count in Counter(named.values()).items() if count > 1}.intersection(present.values()):
        update = table.handle.updateSpec()
        for (column, transform), name in present.items():
            if name in doubled:
                present[column, transform] = _name(column, transform, ids, named.values())
                update.renameField(name, present[column, transform])
        update.commit()
    if set(present) == set(wanted):
        return bool(doubled)
    update = table.handle.updateSpec()
    for key, name in present.items():
        if key not in wanted:
            update.removeField(name)
    expressions = table.engine.java("org.apache.iceberg.expressions.Expressions")
    for column, transform in wanted:
        if (column, transform) not in present:
            field = ids[column], transform
            named[field] = named.get(field) or _name(column, transform, ids, named.values())
            update.addField(named[field], _term(expressions, column, transform))
    update.commit()
    return True


def _names_of_partitions(table: Any) -> dict[tuple[int, str], str]:
    """Of the fields of all specs, by the source's ID and the transform: one that comes back has its name again."""
    return {
        (one["source-id"], one["transform"]): str(one["name"])
        for spec in table.metadata["partition-specs"]
        for one in spec["fields"]
    }


def _term(expressions: Any, column: str, transform: str) -> Any:
    word, _, rest = transform.partition("[")
    if rest:
        width = int(rest.removesuffix("]"))
        return expressions.bucket(column, width) if word == "bucket" else expressions.truncate(column, width)
    return expressions.ref(column) if word == "identity" else getattr(expressions, word)(column)


def _spec(table: Any) -> Sequence[Mapping[str, Any]]:
    """Fields of the present spec, without those that were removed (format 1 keeps them)."""
    wanted = table.metadata["default-spec-id"]
    found = next(one["fields"] for one in table.metadata["partition-specs"] if one["spec-id"] == wanted)
    return [one for one in found if one["transform"] != "void"]


def _sorts(table: Any, by_id: Mapping[int, str]) -> Pairs:
    wanted = table.metadata.get("default-sort-order-id", 0)
    orders = table.metadata.get("sort-orders", ())
    found = next((one["fields"] for one in orders if one["order-id"] == wanted), ())
    return tuple((by_id.get(one["source-id"], ""), one["direction"]) for one in found)


def partition_columns(table: Any) -> set[str]:
    """Columns that any spec of the table goes by, or went: files name their values."""
    by_id = {int(one["id"]): str(one["name"]) for one in table.fields}
    specs = table.metadata["partition-specs"]
    return {by_id[one["source-id"]] for spec in specs for one in spec["fields"] if one["source-id"] in by_id}


def partitions_named_as(table: Any, columns: Mapping[str, str]) -> list[str]:
    """Which of these columns, by their new names with the old ones, any spec has another column's field by the name of.

    Iceberg refuses such a schema, also for a spec that was replaced.
    """
    ids = {str(one["name"]): int(one["id"]) for one in table.fields}
    sources = {(name, source) for (source, _), name in _names_of_partitions(table).items()}
    return sorted({name for name, source in sources if name in columns and ids.get(columns[name]) != source})


def release(transaction: Any, table: Any, gone: set[str]) -> None:
    """Before columns go: the sort order lets go of them."""
    by_id = {int(one["id"]): str(one["name"]) for one in table.fields}
    if any(column in gone for column, _ in _sorts(table, by_id)):
        transaction.replaceSortOrder().commit()
