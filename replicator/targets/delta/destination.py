"""A destination: what the target can do, its form, and what delta-rs is given."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any
from urllib.parse import quote, urlsplit

from replicator.addresses import resolved
from replicator.errors import ConfigurationError
from replicator.sources.base import FormField
from replicator.targets.base import Capabilities, TargetTable
from replicator.targets.iceberg import destination as lake
from replicator.targets.iceberg.destination import (
    ADLS,
    ENVIRONMENT,
    FILE,
    GCS,
    KEYS,
    REGION,
    S3,
    SCHEMES,
    STORE_OF,
    LakeCatalog,
)

CAPABILITIES = Capabilities(exactly_once="txn actions of the commit that has the rows", upkeep=True, verified=True)
BUILT_IN = "built_in"
HTTPS = 443
MAX_FOLDER = 180  # characters: file systems take 255
FOLDER = "delta"  # of the installation's own place
# Delta-rs would retry for three minutes; the engine retries anyway.
PATIENCE = {"connect_timeout": "5s", "timeout": "60s", "max_retries": "3", "retry_timeout": "30s"}
_REGION = re.compile(r"[a-z0-9-]{0,40}")
_IN_STORE = {one.name: one for one in lake.DESTINATION_FORM}


def _shared(name: str, *when: tuple[str, tuple[str, ...]], **changes: Any) -> FormField:
    """A field as Iceberg's form has it."""
    return replace(_IN_STORE[name], when=when, **changes)


_KEYS = ("credentials", (KEYS,))
DESTINATION_FORM = (
    FormField(
        "store", "Object store", "choice", default=BUILT_IN, main=True,
        choices=((BUILT_IN, "Beside this installation’s lakehouse"), *_IN_STORE["store"].choices),
    ),
    FormField(
        "location", "Location", main=True, when=(("store", (S3, GCS, ADLS, FILE)),),
        help="The URL below which tables are made, such as s3://bucket/delta.",
    ),
    _shared(
        "credentials", ("store", (S3, GCS, ADLS)),
        choices=((ENVIRONMENT, "The workers’ own"), (KEYS, "Keys")),
    ),
    _shared("region", ("store", (S3,))),
    _shared("store_endpoint", ("store", (S3, ADLS))),
    _shared("access_key_id", ("store", (S3,)), _KEYS),
    _shared("secret_access_key", ("store", (S3,)), _KEYS),
    _shared("account_name", ("store", (ADLS,)), _KEYS),
    _shared("account_key", ("store", (ADLS,)), _KEYS),
)  # fmt: skip


@dataclass(frozen=True)
class DeltaStore:
    """Where tables are.  location: a URL without a slash at its end.

    options: delta-rs' `storage_options`; files: the same for pyarrow, as properties of Iceberg's FileIO.
    """

    location: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    files: Mapping[str, str] = field(default_factory=dict, repr=False)

    def uri(self, table: TargetTable) -> str:
        """A table's folder."""
        return f"{self.location}/{folder(table.namespace)}/{folder(table.name)}"


def folder(name: str) -> str:
    """Return a folder name for `name`: readable, with characters that every store and every reader accepts.

    Different names have different folders.  Other characters are escaped by their bytes, with a sign that readers of
    URLs do not decode; a name that is too long ends with a digest.
    """
    plain = quote(name, safe="").replace("~", "%7E").replace(".", "%2E").replace("%", "~")
    return plain if len(plain) <= MAX_FOLDER else f"{plain[:MAX_FOLDER]}~{sha256(name.encode()).hexdigest()[:16]}"


def delta_store(settings: Mapping[str, Any], own: LakeCatalog) -> DeltaStore:
    """What a destination's settings say.  own: the lake of this installation.  Raises ConfigurationError."""
    given = _given(settings)
    if given["store"] == BUILT_IN:
        return _beside(own)
    location = given["location"].rstrip("/")
    if not location:
        raise ConfigurationError("Location is missing.", remedy="Enter a URL such as s3://bucket/delta.")
    parts = urlsplit(location)
    if STORE_OF.get(parts.scheme) != given["store"]:
        raise ConfigurationError(
            f"The location must begin with {SCHEMES[given['store']]}://, as the object store says."
        )
    if parts.query or parts.fragment:
        raise ConfigurationError("The location must have no query and no fragment.")
    if (parts.username or parts.password) and given["store"] != ADLS:
        remedy = "Enter them in the fields for credentials."
        raise ConfigurationError("The location must not contain credentials.", remedy=remedy)
    options = _OPTIONS[given["store"]](given)
    return DeltaStore(_normal(location), options, lake.file_properties(given, _region(given)))


def place(settings: Mapping[str, Any]) -> str:
    """Where a destination is, without secrets; empty beside this installation's lakehouse."""
    given = _given(settings)
    return "" if given["store"] == BUILT_IN else _normal(given["location"].rstrip("/"))


def _given(settings: Mapping[str, Any]) -> dict[str, str]:
    """What has no meaning beside the rest is left out: a form may still have it."""
    return {
        one.name: str((one.meant(DESTINATION_FORM, settings) and settings.get(one.name)) or one.default).strip()
        for one in DESTINATION_FORM
    }


def _normal(url: str) -> str:
    return re.sub(r"^file:/*", "file:///", re.sub(r"^s3[an]:", "s3:", url))


def _beside(own: LakeCatalog) -> DeltaStore:
    """In the store that the installation's lakehouse is in, reached as that is."""
    location = _normal(f"{own.warehouse.rstrip('/')}/{FOLDER}")
    if not location.startswith("s3:"):
        return DeltaStore(location)
    files = {name: value for name, value in own.java.items() if name.startswith("s3.")}
    return DeltaStore(location, _s3_options(files.get("s3.region", REGION), files.get("s3.endpoint", "")), files)


def _region(given: Mapping[str, str]) -> str:
    if not _REGION.fullmatch(given["region"]):
        raise ConfigurationError("AWS region must be a name such as eu-west-1.")
    return given["region"] or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or REGION


def _s3_options(region: str, endpoint: str) -> dict[str, str]:
    """An address without TLS has to be allowed by name."""
    found = {"aws_region": region, "aws_conditional_put": "etag", **PATIENCE}
    if endpoint:
        found |= {"aws_endpoint": endpoint, "aws_virtual_hosted_style_request": "false"}
    allowed = (endpoint or os.environ.get("AWS_ENDPOINT_URL", "")).startswith("http:")
    return {**found, "aws_allow_http": str(allowed).lower()}


def _s3(given: Mapping[str, str]) -> dict[str, str]:
    found = _s3_options(_region(given), _endpoint(given))
    if given["credentials"] == KEYS:
        key, secret = _required(given, "access_key_id", "secret_access_key")
        found |= {"aws_access_key_id": key, "aws_secret_access_key": secret}
    return found


def _gcs(given: Mapping[str, str]) -> dict[str, str]:
    if given["credentials"] == KEYS:
        remedy = "Set GOOGLE_APPLICATION_CREDENTIALS in the workers, and choose the workers' own credentials."
        raise ConfigurationError("Google's keys are taken from the workers' environment only.", remedy=remedy)
    return dict(PATIENCE)  # and no address: even with another one, delta-rs signs in at Google's


def _adls(given: Mapping[str, str]) -> dict[str, str]:
    found = dict(PATIENCE)
    if given["credentials"] == KEYS:
        account, key = _required(given, "account_name", "account_key")
        found |= {"azure_storage_account_name": account, "azure_storage_account_key": key}
    if endpoint := _endpoint(given):
        found |= {"azure_endpoint": f"{endpoint}/{given['account_name']}", "allow_http": "true"}
    return found


def _file(given: Mapping[str, str]) -> dict[str, str]:
    del given
    return {}


_OPTIONS = {S3: _s3, GCS: _gcs, ADLS: _adls, FILE: _file}


def _endpoint(given: Mapping[str, str]) -> str:
    """Without a slash at its end; empty where there is none."""
    return given["store_endpoint"] and lake.checked_url(
        given["store_endpoint"], ("http", "https"), "Address of the store"
    )


def _required(given: Mapping[str, str], *names: str) -> list[str]:
    for name in names:
        if not given[name]:
            raise ConfigurationError(f"{_IN_STORE[name].label} is missing.")
    return [given[name] for name in names]


def refuse_link_local(store: DeltaStore) -> None:
    """Also hosts whose name leads there.  ConfigurationError; OSError for a name that is not known."""
    for name, value in store.options.items():
        parts = urlsplit(value) if name.endswith(("endpoint", "base_url")) else None
        if parts is not None and parts.hostname:
            resolved(parts.hostname, parts.port or HTTPS)
