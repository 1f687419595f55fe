"""A lake's catalog read by pyiceberg, in a process without a JVM: for pages, checks and upkeep."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table
from requests import Session
from requests.adapters import HTTPAdapter

from replicator.addresses import resolved
from replicator.targets.iceberg.destination import CATALOG, LakeCatalog
from replicator.targets.iceberg.failures import explained

HTTPS = 443
SECONDS = 10.0  # to an answer of the catalog
GLUE_RETRIES = 2  # with its default, a page would wait a minute for an unreachable Glue


class _Bounded(HTTPAdapter):
    """Requests have a time limit: by default they wait without end."""

    def send(self, *given: Any, **options: Any) -> Any:
        """With a time limit where there is none."""
        options["timeout"] = options.get("timeout") or SECONDS
        return super().send(*given, **options)


class _RestCatalog(RestCatalog):  # type: ignore[misc]
    """pyiceberg takes no time limit."""

    def _create_session(self) -> Session:
        session: Session = super()._create_session()
        for scheme in ("http://", "https://"):
            session.mount(scheme, _Bounded(max_retries=0))
        return session


@contextmanager
def opened(lake: LakeCatalog) -> Iterator[Catalog]:
    """Closed at the end of the block.  Raises TargetError with a reason and a remedy."""
    with explained(lake):
        _refuse_link_local(lake)
        catalog = _catalog(lake)
        try:
            yield catalog
        finally:
            catalog.close()


def _catalog(lake: LakeCatalog) -> Catalog:
    if lake.kind == "rest":
        return _RestCatalog(CATALOG, **{name: value for name, value in lake.python.items() if name != "type"})
    bounds: dict[str, Any] = {"glue.max-retries": GLUE_RETRIES} if lake.kind == "glue" else {}  # it must be a number
    return load_catalog(CATALOG, **lake.python, **bounds)


def _refuse_link_local(lake: LakeCatalog) -> None:
    """Also hosts whose name leads there.  ConfigurationError; OSError for a name that is not known."""
    for value in lake.java.values():
        parts = urlsplit(value) if value.startswith(("http://", "https://", "thrift://")) else None
        if parts is not None and parts.hostname:
            resolved(parts.hostname, parts.port or HTTPS)


def names(lake: LakeCatalog, namespace: str) -> list[str]:
    """Return the tables of a namespace; none where the namespace does not exist.  Raises TargetError."""
    with opened(lake) as catalog:
        try:
            return [identifier[-1] for identifier in catalog.list_tables((namespace,))]
        except NoSuchNamespaceError:
            return []


def table(catalog: Catalog, namespace: str, name: str) -> Table | None:
    """None where it does not exist."""
    try:
        return catalog.load_table((namespace, name))
    except (NoSuchTableError, NoSuchNamespaceError):
        return None
