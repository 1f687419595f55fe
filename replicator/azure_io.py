"""pyiceberg's files in Azure Data Lake Storage, by the addresses that Iceberg writes into metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pyiceberg.io.pyarrow import PyArrowFileIO


class AzureFileIO(PyArrowFileIO):  # type: ignore[misc]
    """`abfss://container@account.dfs.core.windows.net/path`; pyiceberg takes all before the path for the container."""

    @staticmethod
    def parse_location(location: str, properties: Mapping[str, Any] | None = None) -> tuple[str, str, str]:
        """Scheme, container, and the path in pyarrow's file system."""
        del properties
        parts = urlsplit(location)
        container = parts.netloc.partition("@")[0]
        return parts.scheme, container, f"{container}{parts.path}"
