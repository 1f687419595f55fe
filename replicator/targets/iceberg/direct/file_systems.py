"""The store of a table as a file system of pyarrow, reached as Iceberg's FileIO reaches it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pyarrow.fs as pafs

_LOCAL = re.compile(r"^file:/+")
_AZURE = ("abfss", "abfs", "wasbs", "wasb")


def root(uri: str) -> str:
    """Of its file system, and for one that is neither local nor S3 the folder."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc}" if parts.scheme in {"s3", "s3a", "s3n", "gs", *_AZURE} else uri


def file_system(uri: str, store: Mapping[str, str]) -> pafs.FileSystem:
    """`store`: properties of Iceberg's FileIO, credentials among them; without any the environment's are taken.

    OSError or ArrowInvalid where pyarrow cannot reach it.
    """
    scheme = urlsplit(uri).scheme
    if scheme in {"s3", "s3a", "s3n"}:
        return _s3(store)
    if scheme == "gs" and store:
        return _gcs(store)
    if scheme in _AZURE:
        return _azure(uri, store)
    return pafs.FileSystem.from_uri(_LOCAL.sub("file:///", uri))[0]


def inside(uri: str) -> str:
    """The path in its file system."""
    if uri.startswith("file:"):
        return _LOCAL.sub("/", uri)
    parts = urlsplit(uri)
    if parts.scheme in _AZURE:  # abfss://container@account.dfs.core.windows.net/path
        return f"{parts.netloc.partition('@')[0]}{parts.path}"
    return uri.partition("://")[2]


def _s3(store: Mapping[str, str]) -> pafs.FileSystem:
    options: dict[str, Any] = {"allow_delayed_open": True}  # a small file is one request, and not three
    if region := store.get("client.region") or store.get("s3.region"):
        options["region"] = region
    if endpoint := store.get("s3.endpoint"):
        parts = urlsplit(endpoint)
        options |= {"endpoint_override": parts.netloc, "scheme": parts.scheme}
    if key := store.get("s3.access-key-id"):
        options |= {"access_key": key, "secret_key": store.get("s3.secret-access-key", "")}
        options["session_token"] = store.get("s3.session-token")
    return pafs.S3FileSystem(**options)


def _gcs(store: Mapping[str, str]) -> pafs.FileSystem:
    options: dict[str, Any] = {}
    if host := store.get("gcs.service.host"):
        parts = urlsplit(host)
        options |= {"endpoint_override": parts.netloc, "scheme": parts.scheme}
    if token := store.get("gcs.oauth2.token"):
        ends = store.get("gcs.oauth2.token-expires-at", "")
        at = datetime.fromtimestamp(int(ends) / 1000, UTC) if ends.isdigit() else datetime.now(UTC) + timedelta(hours=1)
        options |= {"access_token": token, "credential_token_expiration": at}
    elif store.get("gcs.no-auth") == "true":
        options["anonymous"] = True
    return pafs.GcsFileSystem(**options)


def _azure(uri: str, store: Mapping[str, str]) -> pafs.FileSystem:
    host = urlsplit(uri).netloc.partition("@")[2]
    options: dict[str, Any] = {"account_name": store.get("adls.auth.shared-key.account.name", host.partition(".")[0])}
    if key := store.get("adls.auth.shared-key.account.key"):
        options["account_key"] = key
    if token := store.get(f"adls.sas-token.{host}"):
        options["sas_token"] = token
    if place := store.get(f"adls.connection-string.{host}"):
        parts = urlsplit(place)
        for kind in ("blob", "dfs"):
            options |= {f"{kind}_storage_authority": parts.netloc, f"{kind}_storage_scheme": parts.scheme}
    return pafs.AzureFileSystem(**options)
