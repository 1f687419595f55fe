"""A destination: what the target can do, its form, and what Iceberg's Java library and pyiceberg are given."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from replicator.addresses import checked_host
from replicator.errors import ConfigurationError
from replicator.model.mode import Mode
from replicator.sources.base import FormField
from replicator.targets.base import Capabilities

CAPABILITIES = Capabilities(
    jvm=True, upkeep=True, verified=True, shared_modes=frozenset({Mode.MIRROR, Mode.SOFT_DELETE, Mode.HISTORY})
)
CATALOG = "lake"  # what every client calls it; a JDBC catalog keeps it with its tables
OWNER = "tidemark.replicator"  # the property that says whose a table is
BUILT_IN, REST, GLUE, HIVE, JDBC = "built_in", "rest", "glue", "hive", "jdbc"
S3, GCS, ADLS, FILE = "s3", "gcs", "adls", "file"
ENVIRONMENT, KEYS, VENDED = "environment", "keys", "vended"
SCHEMES = {S3: "s3", GCS: "gs", ADLS: "abfss", FILE: "file"}
STORE_OF = {scheme: store for store, scheme in SCHEMES.items()} | {"s3a": S3, "s3n": S3, "abfs": ADLS}
FILE_IO = {
    S3: "org.apache.iceberg.aws.s3.S3FileIO",
    GCS: "org.apache.iceberg.gcp.gcs.GCSFileIO",
    ADLS: "org.apache.iceberg.azure.adlsv2.ADLSFileIO",
}
AWS, GCP, AZURE = "aws", "gcp", "azure"  # bundles of Iceberg's jars
BUNDLE_OF = {S3: AWS, GCS: GCP, ADLS: AZURE}
REGION = "us-east-1"
OPTIONS = ("sslmode", "sslrootcert", "connect_timeout")  # that a JDBC address may have
AZURE_IO = "replicator.azure_io.AzureFileIO"
NEVER_MS = "4102444800000"  # 2100
_REGION = re.compile(r"[a-z0-9-]{0,40}")  # it becomes a part of a host's name
DELEGATION = "header.X-Iceberg-Access-Delegation"

ADDRESSED = (("catalog", (REST, HIVE, JDBC)),)
OWN = (("catalog", (REST, GLUE, HIVE, JDBC)),)
KEYS_OF_S3 = (("store", (S3,)), ("credentials", (KEYS,)))
KEYS_OF_ADLS = (("store", (ADLS,)), ("credentials", (KEYS,)))
DESTINATION_FORM = (
    FormField(
        "catalog", "Catalog", "choice", default=BUILT_IN, main=True,
        choices=(
            (BUILT_IN, "The lakehouse of this installation"), (REST, "Iceberg REST catalog"), (GLUE, "AWS Glue"),
            (HIVE, "Hive Metastore"), (JDBC, "JDBC: tables in a Postgres database"),
        ),
        help="Polaris, Lakekeeper, Nessie, Unity Catalog, Gravitino, S3 Tables and BigLake are REST catalogs.",
    ),
    FormField(
        "uri", "Catalog address", main=True, when=ADDRESSED,
        help="https://host/path of a REST catalog, thrift://host:9083 of a Hive Metastore, or"
        " postgresql://host:5432/database, where the catalog is called lake.",
    ),
    FormField(
        "warehouse", "Warehouse", required=False, main=True, when=OWN,
        help="REST: the name or ARN by which the catalog knows it; may be empty. Others: the URL below which tables"
        " are made, such as s3://bucket/lake.",
    ),
    FormField(
        "auth", "Authentication", "choice", default="oauth2", main=True, when=(("catalog", (REST,)),),
        choices=(("oauth2", "OAuth2 client credentials"), ("token", "Bearer token"), ("sigv4", "AWS signature (SigV4)"),
            ("none", "None")),
    ),
    FormField("client_id", "Client ID", main=True, when=(("auth", ("oauth2",)),)),
    FormField("client_secret", "Client secret", "password", secret=True, when=(("auth", ("oauth2",)),)),
    FormField(
        "scope", "Scope", required=False, main=True, when=(("auth", ("oauth2",)),),
        help="Empty: catalog. Polaris: PRINCIPAL_ROLE:ALL.",
    ),
    FormField(
        "oauth2_server_uri", "Token endpoint", required=False, main=True, when=(("auth", ("oauth2",)),),
        help="Empty: the catalog’s own, v1/oauth/tokens.",
    ),
    FormField("token", "Token", "password", secret=True, when=(("auth", ("token",)),)),
    FormField(
        "signing_name", "Signed service", required=False, main=True, default="glue", when=(("auth", ("sigv4",)),),
        help="glue, s3tables or execute-api.",
    ),
    FormField("username", "User", required=False, main=True, when=(("catalog", (JDBC,)),)),
    FormField("password", "Password", "password", required=False, secret=True, when=(("catalog", (JDBC,)),)),
    FormField(
        "glue_id", "Glue catalog ID", required=False, main=True, when=(("catalog", (GLUE,)),),
        help="Empty: that of the account whose credentials are used.",
    ),
    FormField(
        "store", "Object store", "choice", default=S3, main=True, when=OWN,
        choices=((S3, "Amazon S3 or compatible"), (GCS, "Google Cloud Storage"), (ADLS, "Azure Data Lake Storage"),
            (FILE, "A folder that all workers share")),
    ),
    FormField(
        "credentials", "Credentials of the store", "choice", default=ENVIRONMENT, main=True, when=OWN,
        choices=((ENVIRONMENT, "The workers’ own"), (KEYS, "Keys"), (VENDED, "Vended by the REST catalog")),
        help="The workers’ own: of their environment, or of the role of their machine.",
    ),
    FormField("region", "AWS region", required=False, main=True, when=(("store", (S3,)),),
        help=f"Empty: AWS_REGION of the workers, else {REGION}."),
    FormField("store_endpoint", "Address of the store", required=False, main=True, when=(("store", (S3, GCS, ADLS)),),
        help="Of a compatible store, such as https://minio:9000. Empty: the cloud’s own."),
    FormField("access_key_id", "Access key ID", main=True, when=KEYS_OF_S3),
    FormField("secret_access_key", "Secret access key", "password", secret=True, when=KEYS_OF_S3),
    FormField("account_name", "Storage account", main=True, when=KEYS_OF_ADLS),
    FormField("account_key", "Account key", "password", secret=True, when=KEYS_OF_ADLS),
    FormField("role_arn", "Role to assume (ARN)", required=False, when=(("catalog", (GLUE,)),),
        help="Empty: the workers’ own role."),
    FormField("glue_endpoint", "Address of Glue", required=False, when=(("catalog", (GLUE,)),),
        help="Empty: Amazon’s own."),
)  # fmt: skip


@dataclass(frozen=True)
class LakeCatalog:
    """A catalog, as its clients are configured.

    java: properties of Iceberg's Java library and of Spark's catalog; python: of `pyiceberg.catalog.load_catalog`.
    warehouse: URL below which each table gets a new folder; empty where the catalog decides.
    bundles: of jars, that the JVM must have; own: it belongs to this installation alone.
    """

    java: Mapping[str, str] = field(repr=False)
    python: Mapping[str, str] = field(repr=False)
    warehouse: str = ""
    bundles: frozenset[str] = frozenset()
    own: bool = False

    @property
    def kind(self) -> str:
        """`jdbc`, `rest`, `glue` or `hive`."""
        return self.java["type"]

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for what is reached in the same way."""
        return self.warehouse, tuple(sorted(self.java.items()))


NO_LAKE = LakeCatalog({}, {})  # in the place of the installation's own, where it does not matter


def lake_catalog(settings: Mapping[str, Any], own: LakeCatalog) -> LakeCatalog:
    """What a destination's settings say.  own: the catalog of this installation.  Raises ConfigurationError."""
    given = _given(settings)
    if given["catalog"] == BUILT_IN:
        return own
    if given["credentials"] == VENDED and given["catalog"] != REST:
        remedy = "Choose other credentials of the store."
        raise ConfigurationError("Only REST catalogs vend credentials.", remedy=remedy)
    if not _REGION.fullmatch(given["region"]):
        raise ConfigurationError("AWS region must be a name such as eu-west-1.")
    region = given["region"] or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or REGION
    store = _store(given, region)
    java, python = _CATALOGS[given["catalog"]](given, region)
    warehouse = _warehouse(given)
    named = {"warehouse": given["warehouse"] if given["catalog"] == REST else warehouse}
    named = {name: value for name, value in named.items() if value}
    if given["catalog"] != REST and given["store"] in FILE_IO:
        java["io-impl"] = FILE_IO[given["store"]]
    return LakeCatalog(
        {**named, **store.java, **java},
        {**named, **store.python, **python},
        "" if given["catalog"] == REST else warehouse,
        bundles_of(settings),
    )


def bundles_of(settings: Mapping[str, Any]) -> frozenset[str]:
    """Of jars, that a destination needs; its secrets are not looked at."""
    given = _given(settings)
    if given["catalog"] == BUILT_IN:
        return frozenset()
    signed = given["catalog"] == GLUE or (given["catalog"] == REST and given["auth"] == "sigv4")
    return frozenset({BUNDLE_OF.get(given["store"], ""), AWS if signed else ""} - {""})


def place(settings: Mapping[str, Any]) -> str:
    """Where a destination is, without secrets; empty for the catalog of this installation."""
    given = _given(settings)
    kind = given["catalog"]
    if kind == BUILT_IN:
        return ""
    at = {GLUE: f"glue:{given['glue_id'] or given['region'] or REGION}"}.get(kind, given["uri"].rstrip("/"))
    return " ".join(filter(None, (at, given["warehouse"])))


def _given(settings: Mapping[str, Any]) -> dict[str, str]:
    return {one.name: str(settings.get(one.name) or one.default).strip() for one in DESTINATION_FORM}


@dataclass(frozen=True)
class _Both:
    """Properties of the Java library and of pyiceberg."""

    java: dict[str, str]
    python: dict[str, str]


def file_properties(given: Mapping[str, str], region: str) -> dict[str, str]:
    """Of Iceberg's FileIO: how files are reached in the store that the settings name."""
    return _store({**given, "catalog": ""}, region).java


def _store(given: Mapping[str, str], region: str) -> _Both:
    """How files are reached."""
    address = given["store_endpoint"]
    endpoint = address and checked_url(address, ("http", "https"), "Address of the store")
    known = _STORES.get(given["store"])
    made = known(given, region, endpoint) if known else _Both({}, {})
    if given["catalog"] == REST:
        lent = "vended-credentials" if given["credentials"] == VENDED else ""
        made.python[DELEGATION] = lent  # pyiceberg requests them by default
        made.java.update({DELEGATION: lent} if lent else {})
    return made


def _s3(given: Mapping[str, str], region: str, endpoint: str) -> _Both:
    both = {"client.region": region, "s3.region": region}
    if endpoint:
        both |= {"s3.endpoint": endpoint, "s3.path-style-access": "true", "s3.force-virtual-addressing": "false"}
    if given["credentials"] == KEYS:
        keys = _required(given, "access_key_id", "secret_access_key")
        both |= {"s3.access-key-id": keys[0], "s3.secret-access-key": keys[1]}
    return _Both(both, dict(both))


def _gcs(given: Mapping[str, str], region: str, endpoint: str) -> _Both:
    del region
    if given["credentials"] == KEYS:
        remedy = "Set GOOGLE_APPLICATION_CREDENTIALS in the workers, and choose the workers' own credentials."
        raise ConfigurationError("Google's keys are taken from the workers' environment only.", remedy=remedy)
    if not endpoint:
        return _Both({}, {})
    own = {"gcs.service.host": endpoint, "gcs.project-id": "tidemark"}
    # Only emulators have another address, and they need no sign-in; pyiceberg requires a token.
    token = {"gcs.oauth2.token": "none", "gcs.oauth2.token-expires-at": NEVER_MS}
    return _Both({**own, "gcs.no-auth": "true"}, {**own, **token})


def _adls(given: Mapping[str, str], region: str, endpoint: str) -> _Both:
    """The place of a container is `abfss://container@host`, of which each client wants to hear in its own way."""
    del region
    python = {"py-io-impl": AZURE_IO}
    if given["credentials"] != KEYS:
        return _Both({}, {**python, "adls.account-name": given["account_name"]} if given["account_name"] else python)
    account, key = _required(given, "account_name", "account_key")
    java = {"adls.auth.shared-key.account.name": account, "adls.auth.shared-key.account.key": key}
    python |= {"adls.account-name": account, "adls.account-key": key}
    if endpoint:
        java[f"adls.connection-string.{account}.dfs.core.windows.net"] = f"{endpoint}/{account}"
        parts = urlsplit(endpoint)
        for kind in ("blob", "dfs"):
            python |= {f"adls.{kind}-storage-authority": parts.netloc, f"adls.{kind}-storage-scheme": parts.scheme}
    return _Both(java, python)


def _rest(given: Mapping[str, str], region: str) -> tuple[dict[str, str], dict[str, str]]:
    uri = checked_url(given["uri"], ("http", "https"), "Catalog address")
    # A request that no server answers ends: both clients would wait without end.
    java = {"type": "rest", "uri": uri, "rest.client.connection-timeout-ms": "10000"}
    java |= {"rest.client.socket-timeout-ms": "60000"}
    python = {"type": "rest", "uri": uri}
    match given["auth"]:
        case "token":
            (token,) = _required(given, "token")
            java |= {"rest.auth.type": "oauth2", "token": token, "token-refresh-enabled": "false"}
            python |= {"token": token}
        case "oauth2":
            client, secret = _required(given, "client_id", "client_secret")
            known = {"credential": f"{client}:{secret}", "scope": given["scope"] or "catalog"}
            server = given["oauth2_server_uri"] or f"{uri}/v1/oauth/tokens"
            known["oauth2-server-uri"] = checked_url(server, ("http", "https"), "Token endpoint")
            java |= {"rest.auth.type": "oauth2", **known}
            python |= known
        case "sigv4":
            signed = {"rest.signing-region": region, "rest.signing-name": given["signing_name"]}
            java |= {"rest.auth.type": "sigv4", "rest.auth.sigv4.delegate-auth-type": "none", **signed}
            python |= {"rest.sigv4-enabled": "true", **signed}
            if given["credentials"] == KEYS:
                key, secret = _required(given, "access_key_id", "secret_access_key")
                java |= {"rest.access-key-id": key, "rest.secret-access-key": secret}
                python |= {"client.access-key-id": key, "client.secret-access-key": secret}
        case _:
            java["rest.auth.type"] = "none"
    return java, python


def _glue(given: Mapping[str, str], region: str) -> tuple[dict[str, str], dict[str, str]]:
    java = {"type": "glue", "client.region": region}
    python = {"type": "glue", "glue.region": region}
    if given["glue_id"]:
        java["glue.id"] = python["glue.id"] = given["glue_id"]
    if given["glue_endpoint"]:
        java["glue.endpoint"] = python["glue.endpoint"] = checked_url(given["glue_endpoint"], ("http", "https"), "Glue")
    if given["credentials"] == KEYS:
        remedy = (
            f"Choose the workers' own credentials, or the REST catalog https://glue.{region}.amazonaws.com/iceberg with"
            " an AWS signature, which takes keys."
        )
        raise ConfigurationError("AWS Glue takes the workers' own credentials only.", remedy=remedy)
    if given["role_arn"]:
        java |= {
            "client.factory": "org.apache.iceberg.aws.AssumeRoleAwsClientFactory",
            "client.assume-role.arn": given["role_arn"],
            "client.assume-role.region": region,
        }
        python["client.role-arn"] = given["role_arn"]
    return java, python


def _hive(given: Mapping[str, str], region: str) -> tuple[dict[str, str], dict[str, str]]:
    del region
    uri = checked_url(given["uri"], ("thrift",), "Catalog address")
    return {"type": "hive", "uri": uri}, {"type": "hive", "uri": uri}


def _jdbc(given: Mapping[str, str], region: str) -> tuple[dict[str, str], dict[str, str]]:
    del region
    uri = checked_url(given["uri"], ("postgresql", "postgres"), "Catalog address")
    parts = urlsplit(uri)
    options = parse_qsl(parts.query)
    if odd := next((name for name, _ in options if name not in OPTIONS), None):
        raise ConfigurationError(
            f"Catalog address: the option {odd} is not allowed.", remedy=f"Allowed: {', '.join(OPTIONS)}."
        )
    if not parts.path.strip("/"):
        raise ConfigurationError("Catalog address: the name of the database is missing.")
    at = f"{parts.hostname}:{parts.port or 5432}{parts.path}" + (f"?{parts.query}" if parts.query else "")
    java = {"type": "jdbc", "uri": f"jdbc:postgresql://{at}", "jdbc.schema-version": "V1"}
    user, password = given["username"], given["password"]
    java |= {f"jdbc.{name}": value for name, value in (("user", user), ("password", password)) if value}
    login = ":".join(quote(part, safe="") for part in (user, password) if part)
    python = {"type": "sql", "uri": f"postgresql+psycopg2://{login}{'@' if login else ''}{at}"}
    return java, {**python, "init_catalog_tables": "false"}


_CATALOGS: Mapping[str, Callable[[Mapping[str, str], str], tuple[dict[str, str], dict[str, str]]]] = {
    REST: _rest,
    GLUE: _glue,
    HIVE: _hive,
    JDBC: _jdbc,
}
_STORES: Mapping[str, Callable[[Mapping[str, str], str, str], _Both]] = {S3: _s3, GCS: _gcs, ADLS: _adls}


def _warehouse(given: Mapping[str, str]) -> str:
    """A URL, except of a REST catalog."""
    text = given["warehouse"].rstrip("/")
    if given["catalog"] == REST:
        return ""
    if not text:
        raise ConfigurationError("Warehouse is missing.", remedy="Enter a URL such as s3://bucket/lake.")
    scheme = urlsplit(text).scheme
    if STORE_OF.get(scheme) != given["store"]:
        wanted = f"{SCHEMES[given['store']]}://"
        raise ConfigurationError(f"The warehouse must begin with {wanted}, as the object store says.")
    return re.sub(r"^s3[an]:", "s3:", text)


def _required(given: Mapping[str, str], *names: str) -> list[str]:
    labels = {one.name: one.label for one in DESTINATION_FORM}
    for name in names:
        if not given[name]:
            raise ConfigurationError(f"{labels[name]} is missing.")
    return [given[name] for name in names]


def checked_url(text: str, schemes: tuple[str, ...], label: str) -> str:
    """Without a slash at its end.  ConfigurationError for another scheme, credentials, or a host that is not taken."""
    if not text:
        raise ConfigurationError(f"{label} is missing.")
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        host, parts = "", urlsplit("")
    if parts.scheme not in schemes or not host:
        raise ConfigurationError(f"{label} must be a URL that begins with {' or '.join(f'{s}://' for s in schemes)}.")
    if parts.username or parts.password:
        raise ConfigurationError(
            f"{label} must not contain credentials.", remedy="Enter them in the fields for credentials."
        )
    checked_host(host)
    return text.rstrip("/")
