"""Datasets and tables: descriptions as the API gives them, rows in DuckDB.

A table's rows lie in a table of DuckDB with a number for its name: names of BigQuery are case-sensitive, those of
DuckDB are not.
"""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb

from testing.servers.bigquery.refusals import Refusal

TYPES = {
    "INTEGER": "BIGINT", "INT64": "BIGINT", "FLOAT": "DOUBLE", "FLOAT64": "DOUBLE", "BOOLEAN": "BOOLEAN",
    "BOOL": "BOOLEAN", "STRING": "VARCHAR", "BYTES": "BLOB", "DATE": "DATE", "DATETIME": "TIMESTAMP",
    "TIMESTAMP": "TIMESTAMPTZ",
}  # fmt: skip
SHOWN = {"INT64": "INTEGER", "FLOAT64": "FLOAT", "BOOL": "BOOLEAN"}
UNCLUSTERED = frozenset({"FLOAT", "BYTES"})
MAX_CLUSTERED, MAX_COLUMNS = 4, 10_000
DATASET = re.compile(r"\w{1,1024}", re.ASCII)
TABLE = re.compile(r"[\w\- ]{1,1024}")
COLUMN = re.compile(r"""[^!"$()*,./;?@\[\\\]^`{}~]{1,300}""")
KEPT = re.compile(
    r"_TABLE_|_FILE_|_PARTITION|_ROW_TIMESTAMP|__ROOT__|_COLIDENTIFIER|_CHANGE_(SEQUENCE_NUMBER|TYPE|TIMESTAMP)",
    re.IGNORECASE,
)
MACROS = (
    "CREATE MACRO to_json_string_(x) AS CASE WHEN x IS NULL THEN 'null' ELSE CAST(x AS VARCHAR) END",
    "CREATE MACRO farm_fingerprint(x) AS CAST(hash(x) % 9223372036854775807 AS BIGINT)",
    "CREATE MACRO ieee_divide(x, y) AS CAST(x AS DOUBLE) / CAST(y AS DOUBLE)",
)
Place = tuple[str, str]  # dataset, table


def now() -> int:
    """Milliseconds since 1970."""
    return int(time.time() * 1000)


@dataclass
class Table:
    """fields: of its columns, as the API has them; physical: its name in DuckDB; changes: of its rows so far."""

    physical: str
    fields: list[dict[str, Any]]
    clustering: list[str] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    expires: int | None = None  # milliseconds since 1970
    created: int = field(default_factory=now)
    modified: int = field(default_factory=now)
    etag: str = field(default_factory=lambda: uuid.uuid4().hex)
    changes: int = 0
    changed_by: str = ""  # the job whose transaction has changed rows and has not ended

    def touch(self) -> None:
        self.modified, self.etag = now(), uuid.uuid4().hex


class Tables:
    """All of a project.  Thread-safe."""

    def __init__(self, project: str, location: str) -> None:
        self.project, self.location = project, location
        self.lock = threading.RLock()
        self.ended = threading.Condition(self.lock)  # a transaction
        self.datasets: dict[str, dict[str, Any]] = {}
        self.tables: dict[Place, Table] = {}
        self._database = duckdb.connect(":memory:")
        self._number = 0
        for sql in ("SET TimeZone = 'UTC'", *MACROS):
            self._database.execute(sql)

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a new DuckDB connection to the same database, in UTC."""
        made = self._database.cursor()
        made.execute("SET TimeZone = 'UTC'")
        return made

    def named(self, place: Place) -> str:
        return f"{self.project}:{place[0]}.{place[1]}"

    def dataset(self, name: str) -> dict[str, Any]:
        """Refusal where there is none."""
        if name not in self.datasets:
            raise self._missing(f"Dataset {self.project}:{name}")
        return self.datasets[name]

    def find(self, place: Place) -> Table:
        """Refusal where there is none."""
        with self.lock:
            self.dataset(place[0])
            found = self.tables.get(place)
            if found is not None and found.expires is not None and found.expires < now():
                self.drop(place)
                found = None
            if found is None:
                raise self._missing(f"Table {self.named(place)}")
            return found

    def _missing(self, what: str) -> Refusal:
        return Refusal("notFound", f"Not found: {what} was not found in location {self.location}")

    def make_dataset(self, name: str, location: str) -> dict[str, Any]:
        with self.lock:
            if not DATASET.fullmatch(name):
                raise Refusal("invalid", f'Invalid dataset ID "{name}".')
            if name in self.datasets:
                raise Refusal("duplicate", f"Already Exists: Dataset {self.project}:{name}")
            self.datasets[name] = {
                "kind": "bigquery#dataset", "id": f"{self.project}:{name}", "location": location or "US",
                "datasetReference": {"projectId": self.project, "datasetId": name}, "etag": uuid.uuid4().hex,
            }  # fmt: skip
            return self.datasets[name]

    def drop_dataset(self, name: str, *, contents: bool) -> None:
        with self.lock:
            self.dataset(name)
            inside = [place for place in self.tables if place[0] == name]
            if inside and not contents:
                raise Refusal("resourceInUse", f"Dataset {self.project}:{name} is still in use")
            for place in inside:
                self.drop(place)
            del self.datasets[name]

    def make(self, place: Place, fields: Sequence[dict[str, Any]], **more: Any) -> Table:
        """An empty table."""
        with self.lock:
            self.dataset(place[0])
            if place in self.tables:
                raise Refusal("duplicate", f"Already Exists: Table {self.named(place)}")
            if not TABLE.fullmatch(place[1]):
                raise Refusal("invalid", f'Invalid table ID "{place[1]}".')
            shown = [shown_field(one) for one in fields]
            check_columns(shown)
            self._number += 1
            made = Table(f"t{self._number}", shown, **more)
            check_clustering(made.fields, made.clustering)
            columns = ", ".join(f"{quoted(one['name'])} {duck_type(one)}" for one in made.fields)
            self.cursor().execute(f"CREATE TABLE {made.physical} ({columns})")
            self.tables[place] = made
            return made

    def drop(self, place: Place) -> None:
        with self.lock:
            gone = self.tables.pop(place)
            self.cursor().execute(f"DROP TABLE {gone.physical}")

    def rows(self, table: Table) -> int:
        ((found,),) = self.cursor().execute(f"SELECT COUNT(*) FROM {table.physical}").fetchall()
        return int(found)

    def resource(self, place: Place) -> dict[str, Any]:
        """As the API describes it."""
        table = self.find(place)
        count = self.rows(table)
        more: dict[str, Any] = {"clustering": {"fields": table.clustering}} if table.clustering else {}
        if table.expires is not None:
            more["expirationTime"] = str(table.expires)
        return {
            "kind": "bigquery#table", "id": f"{self.named(place)}", "etag": table.etag, "type": "TABLE",
            "tableReference": {"projectId": self.project, "datasetId": place[0], "tableId": place[1]},
            "schema": {"fields": table.fields}, "labels": table.labels, "numRows": str(count),
            "numBytes": str(count * 8), "creationTime": str(table.created), "lastModifiedTime": str(table.modified),
            "location": self.dataset(place[0])["location"], **more,
        }  # fmt: skip


def check_columns(fields: Sequence[dict[str, Any]]) -> None:
    """Names that no table can have, or that are one name to BigQuery."""
    seen = set()
    for one in fields:
        name = one["name"]
        if not COLUMN.fullmatch(name) or KEPT.match(name):
            raise Refusal("invalid", f'Invalid field name "{name}". Fields must contain the allowed characters.')
        if name.lower() in seen:
            raise Refusal("invalid", f"Duplicate column name {name} is not supported in the table.")
        seen.add(name.lower())
    if not 0 < len(fields) <= MAX_COLUMNS:
        raise Refusal("invalid", f"Too many fields: {len(fields)}")


def check_clustering(fields: Sequence[dict[str, Any]], by: Sequence[str]) -> None:
    kinds = {one["name"].lower(): one["type"] for one in fields}
    if len(by) > MAX_CLUSTERED:
        raise Refusal("invalid", "At most 4 columns can be clustered by.")
    for name in by:
        if name.lower() not in kinds or kinds[name.lower()] in UNCLUSTERED:
            raise Refusal("invalid", f"The field {name} cannot be clustered by.")


def shown_field(given: dict[str, Any]) -> dict[str, Any]:
    """A column as the API shows it; Refusal for what is none."""
    kind = str(given["type"]).upper()
    made = {"name": given["name"], "type": SHOWN.get(kind, kind), "mode": given.get("mode", "NULLABLE")}
    if made["type"] in ("NUMERIC", "BIGNUMERIC") and given.get("precision"):
        digits, after = int(given["precision"]), int(given.get("scale") or 0)
        check_digits(made["type"], digits, after)
        made |= {"precision": str(digits), **({"scale": str(after)} if after else {})}
    elif made["type"] not in TYPES and made["type"] not in ("NUMERIC", "BIGNUMERIC"):
        raise Refusal("invalid", f"Invalid value for type: {kind} is not a valid value")
    return made


def check_digits(kind: str, digits: int, after: int) -> None:
    most, before = (9, 29) if kind == "NUMERIC" else (38, 38)
    if not (0 <= after <= most and max(1, after) <= digits <= after + before):
        raise Refusal("invalidQuery", f"{kind}({digits}, {after}) is out of range")


def duck_type(one: dict[str, Any]) -> str:
    """Of a field."""
    if one["type"] in TYPES:
        return TYPES[one["type"]]
    digits, after = int(one.get("precision") or 38), int(one.get("scale") or (0 if one.get("precision") else 9))
    return f"DECIMAL({min(digits, 38)},{after})"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
