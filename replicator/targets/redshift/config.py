"""A destination's settings: how Redshift is reached, as whom, and the bucket that its loads are read from."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from replicator.addresses import checked_host
from replicator.errors import ConfigurationError
from replicator.sources.base import FormField
from replicator.sources.shared.settings import CONNECT_SECONDS, CONNECT_TIMEOUT, PASSWORD, host_of, number, text
from replicator.targets.iceberg.destination import REGION, checked_url

DEFAULT_PORT = 5439
BY_PASSWORD, CLUSTER, SERVERLESS = "password", "iam_cluster", "iam_serverless"
VERIFY_FULL, VERIFY_CA, DISABLE = "verify-full", "verify-ca", "disable"
ENVIRONMENT, KEYS, PROFILE = "environment", "keys", "profile"
ROLE, SAME = "role", "keys"  # how COPY reads the bucket
_ARN = re.compile(r"arn:[\w-]+:iam::\d{12}:role/[\w+=,.@/-]+(,arn:[\w-]+:iam::\d{12}:role/[\w+=,.@/-]+)*|default")
_PLAIN = re.compile(r"[\w.@+=,-]{0,128}")
_REGION = re.compile(r"[a-z0-9-]{0,40}")

DESTINATION_FORM = (
    FormField("host", "Host", help="Endpoint of the cluster or workgroup, without port and database."),
    FormField("port", "Port", "number", required=False, default=str(DEFAULT_PORT)),
    FormField("database", "Database", help="It must exist. Each source database becomes a schema of it."),
    FormField(
        "auth", "Authentication", "choice", default=BY_PASSWORD, main=True,
        choices=((BY_PASSWORD, "User and password"), (CLUSTER, "IAM, for a provisioned cluster"),
            (SERVERLESS, "IAM, for a serverless workgroup")),
        help="IAM: Tidemark asks AWS for a short-lived login at each connection, with the AWS credentials below.",
    ),
    FormField("user", "User", main=True, when=(("auth", (BY_PASSWORD, CLUSTER)),)),
    FormField("password", PASSWORD.label, "password", secret=True, when=(("auth", (BY_PASSWORD,)),)),
    FormField("cluster", "Cluster identifier", main=True, when=(("auth", (CLUSTER,)),)),
    FormField("workgroup", "Workgroup", main=True, when=(("auth", (SERVERLESS,)),)),
    FormField(
        "tls", "TLS", "choice", default=VERIFY_FULL,
        choices=((VERIFY_FULL, "Certificate and host name checked"), (VERIFY_CA, "Certificate checked"),
            (DISABLE, "Off, through a tunnel on this machine only")),
    ),
    FormField(
        "staging", "Staging location", main=True,
        help="s3://bucket/prefix in the region of Redshift. Files lie there while they are loaded, and are deleted.",
    ),
    FormField(
        "load", "COPY reads the bucket by", "choice", default=ROLE, main=True,
        choices=((ROLE, "An IAM role of Redshift"), (SAME, "The AWS credentials below")),
        help="With the credentials, each COPY statement carries them; Redshift hides them in its own logs.",
    ),
    FormField(
        "iam_role", "IAM role", main=True, when=(("load", (ROLE,)),),
        help="The ARN of a role that is attached to Redshift and may read the bucket, or: default.",
    ),
    FormField(
        "credentials", "AWS credentials", "choice", default=ENVIRONMENT, main=True,
        choices=((ENVIRONMENT, "The workers’ own"), (KEYS, "Keys"), (PROFILE, "A profile of the workers")),
        help="With these Tidemark writes to the bucket, and asks for logins.",
    ),
    FormField("access_key_id", "Access key ID", main=True, when=(("credentials", (KEYS,)),)),
    FormField("secret_access_key", "Secret access key", "password", secret=True, when=(("credentials", (KEYS,)),)),
    FormField("profile", "Profile", main=True, when=(("credentials", (PROFILE,)),)),
    FormField("role_arn", "Role to assume (ARN)", required=False, help="Empty: none."),
    FormField("region", "AWS region", required=False, help=f"Empty: AWS_REGION of the workers, else {REGION}."),
    FormField("store_endpoint", "Address of the store", required=False, help="Empty: Amazon’s own."),
    FormField("aws_endpoint", "Address of the login service", required=False, help="Empty: Amazon’s own."),
    CONNECT_TIMEOUT,
)  # fmt: skip


@dataclass(frozen=True)
class AwsAccess:
    """Who Tidemark is for AWS.  keys: id and secret; empty: of the profile, or the process's own."""

    region: str = ""
    keys: tuple[str, str] = field(default=("", ""), repr=False)
    profile: str = ""
    role: str = ""


@dataclass(frozen=True)
class RedshiftDestination:
    """login: `auth`; name: of the cluster or workgroup.

    bucket, prefix: where files are staged; role: by which COPY reads them, empty: with Tidemark's own credentials.
    store, logins: addresses of S3 and of the service that makes logins; empty: Amazon's.
    """

    host: str
    port: int
    database: str
    login: str
    user: str
    password: str = field(repr=False)
    name: str
    tls: str
    bucket: str
    prefix: str
    role: str
    aws: AwsAccess
    store: str
    logins: str
    connect_timeout: int

    @property
    def where(self) -> str:
        """For messages."""
        return f"Redshift at {self.host}:{self.port}"


def destination(settings: Mapping[str, Any]) -> RedshiftDestination:
    """What a destination's settings say.  Raises ConfigurationError."""
    given = {one.name: text(settings, one.name) or one.default for one in DESTINATION_FORM}
    for one in DESTINATION_FORM:
        if one.required and one.meant(DESTINATION_FORM, given) and not given[one.name]:
            raise ConfigurationError(f"{one.label} is missing.")
        if one.choices and given[one.name] not in dict(one.choices):
            raise ConfigurationError(f"{one.label}: {given[one.name]!r} is not known.")
    host = checked_host(host_of(settings))
    if given["tls"] == DISABLE and not _on_this_machine(host):
        remedy = "Redshift's certificates need no setting: choose a mode that checks them."
        raise ConfigurationError("TLS can be off only for an address of this machine, as of a tunnel.", remedy=remedy)
    bucket, prefix = _location(given["staging"])
    return RedshiftDestination(
        host=host,
        port=number(settings, "port", 1, 65535) or DEFAULT_PORT,
        database=given["database"],
        login=given["auth"],
        user=given["user"],
        password=str(settings.get("password") or ""),
        name=given["cluster"] if given["auth"] == CLUSTER else given["workgroup"],
        tls=given["tls"],
        bucket=bucket,
        prefix=prefix,
        role=_role(given["iam_role"]) if given["load"] == ROLE else "",
        aws=_access(given),
        store=given["store_endpoint"] and checked_url(given["store_endpoint"], ("http", "https"), "Store"),
        logins=given["aws_endpoint"] and checked_url(given["aws_endpoint"], ("http", "https"), "Login service"),
        connect_timeout=number(settings, "connect_timeout", 1, 300) or CONNECT_SECONDS,
    )


def place(settings: Mapping[str, Any]) -> str:
    """Where a destination is, without secrets; empty for settings that lead nowhere."""
    host = text(settings, "host")
    return f"{host.lower()}:{text(settings, 'port') or DEFAULT_PORT}/{text(settings, 'database')}" if host else ""


def _on_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _location(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    odd = parts.query or parts.fragment or "@" in parts.netloc or "\\" in url or not url.isprintable()
    if parts.scheme != "s3" or not parts.netloc or odd:
        raise ConfigurationError(
            "Staging location must be an address such as s3://bucket/prefix.", remedy="Credentials have own fields."
        )
    return parts.netloc, parts.path.strip("/")


def _role(arn: str) -> str:
    if not _ARN.fullmatch(arn):
        raise ConfigurationError("IAM role must be the ARN of a role, or default.")
    return arn


def _access(given: Mapping[str, str]) -> AwsAccess:
    if not _REGION.fullmatch(given["region"]):
        raise ConfigurationError("AWS region must be a name such as eu-west-1.")
    if not _PLAIN.fullmatch(given["access_key_id"]):
        raise ConfigurationError("Access key ID has characters that no key has.")
    keys = (given["access_key_id"], given["secret_access_key"]) if given["credentials"] == KEYS else ("", "")
    return AwsAccess(
        region=given["region"],
        keys=keys,
        profile=given["profile"] if given["credentials"] == PROFILE else "",
        role=_role(given["role_arn"]) if given["role_arn"] else "",
    )
