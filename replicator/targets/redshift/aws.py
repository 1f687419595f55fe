"""What a destination does at AWS: files in the staging bucket, and short-lived logins."""

from __future__ import annotations

import io
import os
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, ProfileNotFound

from replicator.addresses import resolved
from replicator.errors import ConfigurationError, StorageFull, TargetError, TargetUnauthorized
from replicator.targets.check import CREDENTIALS, said
from replicator.targets.iceberg.destination import REGION
from replicator.targets.redshift.config import CLUSTER, AwsAccess, RedshiftDestination

FOLDER = "tidemark_staging"  # below the destination's prefix; what is in it is Tidemark's
LOAD_SECONDS = 2 * 3600  # no load takes longer: a statement is cancelled before
ROLE_SECONDS = 1800.0  # an assumed role is used for; AWS gives it for an hour
LOGIN_SECONDS = 900
_HTTPS, _HTTP = 443, 80
_CONFIG = Config(connect_timeout=10, read_timeout=60, retries={"max_attempts": 4, "mode": "standard"})
_REFUSED = frozenset({
    "AccessDenied", "AccessDeniedException", "AllAccessDisabled", "ExpiredToken", "ExpiredTokenException",
    "InvalidAccessKeyId", "InvalidClientTokenId", "SignatureDoesNotMatch", "UnrecognizedClientException", "403",
})  # fmt: skip


class Aws:
    """Thread-safe."""

    def __init__(self, destination: RedshiftDestination) -> None:
        """Asks for nothing yet."""
        self._to, self._lock = destination, threading.Lock()
        self._opened: tuple[float, Any, Any] | None = None

    def put(self, rows: pa.Table) -> str:
        """Upload rows as a Parquet file at a new path; return its URL.  Raises TargetError, StorageFull."""
        buffer = io.BytesIO()
        pq.write_table(rows, buffer, compression="snappy", use_dictionary=False)
        key = f"{self._folder}{uuid.uuid4().hex}.parquet"
        with self._asking():
            self._store().put_object(Bucket=self._to.bucket, Key=key, Body=buffer.getvalue())
        return f"s3://{self._to.bucket}/{key}"

    def delete(self, url: str) -> None:
        """Raises nothing: what is left, `sweep` deletes."""
        with suppress(TargetError, StorageFull), self._asking():
            self._store().delete_object(Bucket=self._to.bucket, Key=urlsplit(url).path.lstrip("/"))

    def sweep(self, before: float) -> int:
        """Delete files that loads have left behind before a time (seconds since 1970); their number."""
        done = 0
        with self._asking():
            pages = self._store().get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._to.bucket, Prefix=self._folder):
                for found in page.get("Contents", ()):
                    if found["LastModified"].timestamp() < before:
                        self._store().delete_object(Bucket=self._to.bucket, Key=found["Key"])
                        done += 1
        return done

    def authorization(self) -> tuple[str, str]:
        """By what COPY reads the bucket: the clause, and its value (empty: a word)."""
        role = self._to.role
        if role:
            return ("IAM_ROLE default", "") if role == "default" else ("IAM_ROLE", role)
        with self._asking():
            found = self._session()[0].get_credentials()
            if found is None:
                raise NoCredentialsError
            keys = found.get_frozen_credentials()
        value = f"aws_access_key_id={keys.access_key};aws_secret_access_key={keys.secret_key}"
        return "CREDENTIALS", value + (f";token={keys.token}" if keys.token else "")

    def login(self) -> tuple[str, str]:
        """User and password for one connection.  Raises TargetError."""
        to = self._to
        if to.login == "password":
            return to.user, to.password
        service = "redshift" if to.login == CLUSTER else "redshift-serverless"
        with self._asking():
            client = self._client(self._session()[0], service, to.logins)
            if to.login == CLUSTER:
                found = client.get_cluster_credentials(
                    DbUser=to.user, DbName=to.database, ClusterIdentifier=to.name, DurationSeconds=LOGIN_SECONDS,
                    AutoCreate=False,
                )  # fmt: skip
                return found["DbUser"], found["DbPassword"]
            found = client.get_credentials(workgroupName=to.name, dbName=to.database, durationSeconds=LOGIN_SECONDS)
            return found["dbUser"], found["dbPassword"]

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """See `explained`.  Credentials that are refused are not used again: those of a role may have ended early."""
        try:
            with explained(self._to):
                yield
        except TargetUnauthorized:
            with self._lock:
                self._opened = None
            raise

    @property
    def _folder(self) -> str:
        return f"{self._to.prefix}/{FOLDER}/".lstrip("/")

    def _store(self) -> Any:
        return self._session()[1]

    def _session(self) -> tuple[Any, Any]:
        """A session, and its client of the store."""
        with self._lock:
            now = time.monotonic()
            if self._opened is None or (self._to.aws.role and now - self._opened[0] > ROLE_SECONDS):
                session = _session(self._to.aws)
                self._opened = (now, session, self._client(session, "s3", self._to.store))
            return self._opened[1], self._opened[2]

    @staticmethod
    def _client(session: Any, service: str, endpoint: str) -> Any:
        if endpoint:
            parts = urlsplit(endpoint)
            resolved(str(parts.hostname), parts.port or (_HTTPS if parts.scheme == "https" else _HTTP))
        return session.client(service, endpoint_url=endpoint or None, config=_CONFIG)


def _session(access: AwsAccess) -> Any:
    region = access.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or REGION
    key, secret = access.keys
    session = boto3.Session(key or None, secret or None, region_name=region, profile_name=access.profile or None)
    if not access.role:
        return session
    role = session.client("sts", config=_CONFIG).assume_role(RoleArn=access.role, RoleSessionName="tidemark")
    given = role["Credentials"]
    return boto3.Session(
        given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"], region_name=region
    )  # fmt: skip


@contextmanager
def explained(to: RedshiftDestination) -> Iterator[None]:
    """Translate all errors of AWS, and of the connection to it, to TargetError."""
    bucket = f"s3://{to.bucket}"
    try:
        yield
    except ConfigurationError as error:
        raise TargetError(error.message, remedy=error.remedy) from None
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        what = f"AWS answers {error.operation_name} with {code}: {said(error)}"
        if code in _REFUSED:
            raise TargetUnauthorized(what, remedy=CREDENTIALS) from None
        if code in {"NoSuchBucket", "404"}:
            remedy = "Create the bucket in the region of Redshift, or correct the staging location."
            raise TargetError(f"The bucket {bucket} does not exist.", remedy=remedy) from None
        raise TargetError(what) from None
    except (NoCredentialsError, ProfileNotFound) as error:
        raise TargetUnauthorized(f"The workers have no AWS credentials: {said(error)}", remedy=CREDENTIALS) from None
    except (BotoCoreError, OSError) as error:
        remedy = "Retried automatically. Check that the workers can reach AWS, or the store's address."
        raise TargetError(f"AWS cannot be reached: {said(error)}", remedy=remedy) from None
