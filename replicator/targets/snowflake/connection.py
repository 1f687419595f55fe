"""A session of the target: statements, files that are put into the user's stage and copied, transactions."""

from __future__ import annotations

import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from cryptography.hazmat.primitives import serialization
from snowflake import connector

from replicator.errors import ConfigurationError, TargetError
from replicator.model.types import TIMESTAMP, TIMESTAMP_NTZ
from replicator.targets.base import TargetTable
from replicator.targets.snowflake.config import Authentication, SnowflakeDestination
from replicator.targets.snowflake.failures import explained
from replicator.targets.snowflake.names import quoted, snowflake_type_of
from replicator.targets.snowflake.value_limits import check_values
from replicator.targets.warehouse.session import as_arrow, transaction
from replicator.targets.warehouse.sql_states import AGAIN

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

STAGE = "@~/tidemark"  # the user's own stage: no other user reads it, and it needs no privilege
STATEMENT_SECONDS = 3600
LOCK_SECONDS = 60
# Snowflake ends a transaction that idles for 5 minutes and blocks another; later statements would then autocommit.
IDLE_SECONDS = 120.0
NETWORK_SECONDS = 300  # a request is repeated so long; Snowflake knows it again by its id
PARAMETERS = {
    "TIMEZONE": "UTC",
    "QUERY_TAG": "tidemark",
    "LOCK_TIMEOUT": LOCK_SECONDS,
    "STATEMENT_TIMEOUT_IN_SECONDS": STATEMENT_SECONDS,
    "ABORT_DETACHED_QUERY": True,  # what a worker that died has asked for ends soon
    "CLIENT_TELEMETRY_ENABLED": False,
}
MOMENTS: dict[pa.DataType, Callable[[Any], Any]] = {
    TIMESTAMP.arrow: lambda value: value.astimezone(UTC),
    TIMESTAMP_NTZ.arrow: lambda value: value.replace(tzinfo=None),
}
PARQUET = "TYPE = PARQUET USE_LOGICAL_TYPE = TRUE BINARY_AS_TEXT = FALSE"


class SnowflakeSession:
    """See `Session`."""

    def __init__(self, destination: SnowflakeDestination) -> None:
        """Connects.  Raises TargetError."""
        self._destination, self._stopped, self._open = destination, threading.Event(), False
        self._answered = time.monotonic()
        self.stages: list[str] = []
        self.reserved: list[str] = []
        with explained(destination.where):
            self._connection: Any = connector.connect(**client_options(destination))

    def execute(self, sql: str) -> int:
        """See `Session`."""
        with self._asking() as cursor:
            cursor.execute(sql)
            return max(int(cursor.rowcount or 0), 0)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """See `Session`."""
        with self._asking() as cursor:
            cursor.execute(sql)
            found: list[tuple[Any, ...]] = cursor.fetchall()
            return found

    def read(self, sql: str, schema: pa.Schema) -> pa.Table:
        """See `Session`."""
        integers = {kind: int for kind in schema.types if pa.types.is_integer(kind)}
        return as_arrow(self.query(sql), schema, bytes, MOMENTS | integers)

    def load(self, place: str, rows: pa.Table, table: TargetTable) -> int:
        """Through a Parquet file under a path of this attempt alone; COPY deletes it.

        Its columns are numbered: no name of a column has to be one of a file's, too.
        """
        if not rows.num_rows:
            return 0
        check_values(rows, str(table))
        names = [f"c{number}" for number in range(rows.num_columns)]
        values = ", ".join(
            f"$1:{name}::{snowflake_type_of(kind)}" for name, kind in zip(names, rows.schema.types, strict=True)
        )
        path = f"{STAGE}/{datetime.now(UTC):%Y%m%d}/{uuid.uuid4().hex}"
        with tempfile.TemporaryDirectory(prefix="tidemark-snowflake-") as folder:
            file = Path(folder, "rows.parquet")
            pq.write_table(rows.rename_columns(names), file, compression="zstd")
            self.query(f"PUT 'file://{file}' {path} AUTO_COMPRESS=FALSE SOURCE_COMPRESSION=NONE OVERWRITE=FALSE")
        self.query(
            f"COPY INTO {place} ({', '.join(map(quoted, rows.column_names))}) FROM"
            f" (SELECT {values} FROM {path}/{file.name}) FILE_FORMAT = ({PARQUET}) PURGE = TRUE"
        )
        return int(rows.num_rows)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """See `Session`."""
        with transaction(self.execute, self._roll_back):
            self._open = True
            yield
        self._open = False

    def _roll_back(self) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute("ROLLBACK")
        self._open = False

    def usable(self) -> bool:
        """See `Session`."""
        try:
            self.query("SELECT 1")
        except TargetError:
            return False
        return not self._open

    def interrupt(self) -> None:
        """See `Session`.  Through another connection: this one waits for an answer."""
        self._stopped.set()
        with suppress(Exception):
            other = SnowflakeSession(self._destination)
            try:
                other.query(f"SELECT SYSTEM$CANCEL_ALL_QUERIES({int(self._connection.session_id)})")
            finally:
                other.close()

    def close(self) -> None:
        """See `Session`.  The session's end rolls back what is open, and drops its temporary tables."""
        with suppress(Exception):
            self._connection.close(retry=False)

    @contextmanager
    def _asking(self) -> Iterator[Any]:
        if self._stopped.is_set():
            raise TargetError(f"The work at {self._destination.where} was interrupted.", remedy="No action required.")
        if self._open and time.monotonic() - self._answered > IDLE_SECONDS:
            raise TargetError(f"A transaction at {self._destination.where} stood still too long.", remedy=AGAIN)
        with explained(self._destination.where), self._connection.cursor() as cursor:
            yield cursor
        self._answered = time.monotonic()


def client_options(one: SnowflakeDestination) -> dict[str, Any]:
    """Of the vendor's client; it looks for no cloud's metadata service, and sends no telemetry."""
    options = {
        "account": one.account, "protocol": one.protocol, "host": one.host, "port": one.port, "user": one.user,
        "database": quoted(one.database), "role": one.role or None, "warehouse": one.warehouse or None,
        "application": "Tidemark", "session_parameters": PARAMETERS, "login_timeout": one.connect_timeout,
        "network_timeout": NETWORK_SECONDS, "platform_detection_timeout_seconds": 0.0,
        "log_imported_packages_in_telemetry": False, "client_store_temporary_credential": False,
    }  # fmt: skip
    match one.authentication:
        case Authentication.KEY_PAIR:
            return options | {"authenticator": "SNOWFLAKE_JWT", "private_key": private_key(one)}
        case Authentication.OAUTH:
            return options | {"authenticator": "oauth", "token": one.token}
        case Authentication.PASSWORD:
            return options | {"password": one.password}


def private_key(one: SnowflakeDestination) -> PrivateKeyTypes:
    """As the vendor's client takes it.  Raises ConfigurationError."""
    try:
        return _key(one.private_key, one.passphrase)
    except (ValueError, TypeError):
        message = "The private key is not a PEM text of PKCS #8, or its passphrase is wrong."
        raise ConfigurationError(message, remedy="openssl genrsa 2048 | openssl pkcs8 -topk8 -inform PEM") from None


@lru_cache(maxsize=16)
def _key(text: str, passphrase: str) -> PrivateKeyTypes:
    """To check the numbers of a key takes as long as a small merge: once, and not at every session."""
    return serialization.load_pem_private_key(text.encode(), passphrase.encode() or None)
