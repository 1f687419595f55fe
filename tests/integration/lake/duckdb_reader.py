"""DuckDB with what it needs to read a lake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import duckdb_extension_avro
import duckdb_extension_httpfs
import duckdb_extension_iceberg


@contextmanager
def duckdb_with_iceberg() -> Iterator[duckdb.DuckDBPyConnection]:
    """Its extensions come as packages: nothing is fetched."""
    with duckdb.connect() as connection:
        for package in (duckdb_extension_httpfs, duckdb_extension_avro, duckdb_extension_iceberg):
            (extension,) = Path(str(package.__file__)).parent.rglob("*.duckdb_extension")
            connection.load_extension(str(extension))
        yield connection
