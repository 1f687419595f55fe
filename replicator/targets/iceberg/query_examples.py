"""What to paste to read a table: with the catalog's real address, and a word in angle brackets for each secret."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from replicator.targets.iceberg.destination import CATALOG, LakeCatalog
from replicator.targets.kind import QueryExample
from replicator.targets.quoting import double_quoted, shell_word, text_literal

SPARK_PACKAGE = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0"
BUNDLES = {"aws": "iceberg-aws-bundle", "gcp": "iceberg-gcp-bundle", "azure": "iceberg-azure-bundle"}
# Secrets, and users whose password is one: the name of the setting stands for them.
HIDDEN: Mapping[str, str] = {
    "credential": "<client id>:<client secret>",
    "token": "<token>",
    "jdbc.user": "<user>",
    "jdbc.password": "<password>",
    "s3.access-key-id": "<access key id>",
    "s3.secret-access-key": "<secret access key>",
    "rest.access-key-id": "<access key id>",
    "rest.secret-access-key": "<secret access key>",
    "client.access-key-id": "<access key id>",
    "client.secret-access-key": "<secret access key>",
    "adls.auth.shared-key.account.key": "<account key>",
    "adls.account-key": "<account key>",
}
OWN = ("rest.client.", "cache-enabled", "init_catalog_tables", "token-refresh-enabled", "s3.force-virtual-addressing")


def examples(lake: LakeCatalog, namespace: str, name: str, metadata: str) -> list[QueryExample]:
    """In the order of the engines.  metadata: where the table's present metadata file is."""
    makers: tuple[Callable[[LakeCatalog, str, str, str], QueryExample], ...] = (
        _spark, _trino, _duckdb, _pyiceberg, _snowflake,
    )  # fmt: skip
    found = [make(lake, namespace, name, metadata) for make in makers]
    return [*found, *([_athena(namespace, name)] if lake.kind == "glue" else [])]


def _shown(values: Mapping[str, str]) -> dict[str, str]:
    """Without secrets, and without what is Tidemark's own business."""
    kept = {key: HIDDEN.get(key, value) for key, value in values.items() if not key.startswith(OWN)}
    return {key: value for key, value in kept.items() if value and not key.startswith("header.")}


def _spark(lake: LakeCatalog, namespace: str, name: str, metadata: str) -> QueryExample:
    del metadata
    packages = [SPARK_PACKAGE, *(f"org.apache.iceberg:{BUNDLES[one]}:1.10.0" for one in sorted(lake.bundles))]
    if lake.kind == "jdbc":
        packages.append("org.postgresql:postgresql:42.7.11")
    lines = [
        f"spark-sql --packages {','.join(packages)}",
        f"--conf spark.sql.catalog.{CATALOG}=org.apache.iceberg.spark.SparkCatalog",
    ]
    lines += [
        f"--conf spark.sql.catalog.{CATALOG}.{key}={shell_word(value)}" for key, value in _shown(lake.java).items()
    ]
    query = f"SELECT * FROM {CATALOG}.{_back(namespace)}.{_back(name)} LIMIT 10;"
    return QueryExample("Spark", " \\\n  ".join(lines) + f"\n\n{query}")


def _trino(lake: LakeCatalog, namespace: str, name: str, metadata: str) -> QueryExample:
    del metadata
    given, kind = (
        _shown(lake.java),
        {"jdbc": "jdbc", "rest": "rest", "glue": "glue", "hive": "hive_metastore"}[lake.kind],
    )
    lines = ["# etc/catalog/lake.properties", "connector.name=iceberg", f"iceberg.catalog.type={kind}"]
    match lake.kind:
        case "rest":
            lines += _named(given, "iceberg.rest-catalog.", {"uri": "uri", "warehouse": "warehouse"})
            if "credential" in given or "token" in given:
                lines.append("iceberg.rest-catalog.security=OAUTH2")
            oauth = {"credential": "credential", "token": "token", "scope": "scope", "oauth2-server-uri": "server-uri"}
            lines += _named(given, "iceberg.rest-catalog.oauth2.", oauth)
            if given.get("rest.auth.type") == "sigv4":
                lines += [
                    "iceberg.rest-catalog.security=SIGV4",
                    f"iceberg.rest-catalog.signing-name={given['rest.signing-name']}",
                ]
        case "glue":
            lines += _named(given, "hive.metastore.glue.", {"client.region": "region", "glue.id": "catalogid"})
        case "hive":
            lines += _named(given, "hive.metastore.", {"uri": "uri"})
        case _:
            lines += [
                "iceberg.jdbc-catalog.driver-class=org.postgresql.Driver",
                "iceberg.jdbc-catalog.catalog-name=lake",
            ]
            names = {"uri": "connection-url", "jdbc.user": "connection-user", "jdbc.password": "connection-password",
                "warehouse": "default-warehouse-dir"}  # fmt: skip
            lines += _named(given, "iceberg.jdbc-catalog.", names)
    if "aws" in lake.bundles:
        lines.append("fs.native-s3.enabled=true")
        store = {"client.region": "region", "s3.endpoint": "endpoint", "s3.path-style-access": "path-style-access",
            "s3.access-key-id": "aws-access-key", "s3.secret-access-key": "aws-secret-key"}  # fmt: skip
        lines += _named(given, "s3.", store)
    lines += ["fs.native-gcs.enabled=true"] * ("gcp" in lake.bundles)
    lines += ["fs.native-azure.enabled=true"] * ("azure" in lake.bundles)
    return QueryExample(
        "Trino", "\n".join(lines) + f"\n\nSELECT * FROM lake.{double_quoted(namespace)}.{double_quoted(name)} LIMIT 10;"
    )


def _duckdb(lake: LakeCatalog, namespace: str, name: str, metadata: str) -> QueryExample:
    lines = ["INSTALL iceberg; LOAD iceberg;"]
    given = _shown(lake.java)
    if lake.kind != "rest":
        note = "-- the table as it is now: DuckDB reads this kind of catalog by the metadata file"
        return QueryExample(
            "DuckDB", "\n".join([*lines, note, f"SELECT * FROM iceberg_scan({text_literal(metadata)}) LIMIT 10;"])
        )
    options = ["TYPE iceberg", f"ENDPOINT {text_literal(given['uri'])}"]
    if "credential" in given:
        secret = ["TYPE iceberg", "CLIENT_ID '<client id>'", "CLIENT_SECRET '<client secret>'"]
        secret += [
            f"OAUTH2_SERVER_URI {text_literal(given['oauth2-server-uri'])}",
            f"OAUTH2_SCOPE {text_literal(given['scope'])}",
        ]
        lines.append(f"CREATE SECRET lake ({', '.join(secret)});")
        options.append("SECRET lake")
    elif "token" in given:
        lines.append("CREATE SECRET lake (TYPE iceberg, TOKEN '<token>');")
        options.append("SECRET lake")
    elif given.get("rest.auth.type") == "sigv4":
        options.append("AUTHORIZATION_TYPE 'sigv4'")
    else:
        options.append("AUTHORIZATION_TYPE 'none'")
    lines.append(f"ATTACH {text_literal(given.get('warehouse', ''))} AS lake ({', '.join(options)});")
    return QueryExample(
        "DuckDB", "\n".join([*lines, f"SELECT * FROM lake.{double_quoted(namespace)}.{double_quoted(name)} LIMIT 10;"])
    )


def _pyiceberg(lake: LakeCatalog, namespace: str, name: str, metadata: str) -> QueryExample:
    del metadata
    given = dict(lake.python)
    if given.get("type") == "sql":  # the address has the user and the password
        given["uri"] = f"postgresql+psycopg2://<user>:<password>@{given['uri'].rpartition('@')[2]}"
    settings = "\n".join(f"    {json.dumps(key)}: {json.dumps(value)}," for key, value in _shown(given).items()
        if key != "py-io-impl")  # fmt: skip
    identifier = f"({json.dumps(namespace, ensure_ascii=False)}, {json.dumps(name, ensure_ascii=False)})"
    text = f'catalog = load_catalog("{CATALOG}", **{{\n{settings}\n}})\ntable = catalog.load_table({identifier})'
    return QueryExample(
        "pyiceberg", f"from pyiceberg.catalog import load_catalog\n\n{text}\nprint(table.scan(limit=10).to_arrow())"
    )


def _snowflake(lake: LakeCatalog, namespace: str, name: str, metadata: str) -> QueryExample:
    given, options = _shown(lake.java), ["ENABLED = TRUE", "TABLE_FORMAT = ICEBERG"]
    where = [f"CATALOG_TABLE_NAME = {text_literal(name)}"]
    match lake.kind:
        case "rest":
            config = [f"CATALOG_URI = {text_literal(given['uri'])}"]
            config += [f"CATALOG_NAME = {text_literal(given['warehouse'])}"] if "warehouse" in given else []
            options += ["CATALOG_SOURCE = ICEBERG_REST", f"CATALOG_NAMESPACE = {text_literal(namespace)}"]
            options.append(f"REST_CONFIG = ({' '.join(config)})")
            if "credential" in given:
                signed = ["TYPE = OAUTH", f"OAUTH_TOKEN_URI = {text_literal(given['oauth2-server-uri'])}",
                    "OAUTH_CLIENT_ID = '<client id>'", "OAUTH_CLIENT_SECRET = '<client secret>'",
                    f"OAUTH_ALLOWED_SCOPES = ({text_literal(given['scope'])})"]  # fmt: skip
                options.append(f"REST_AUTHENTICATION = ({' '.join(signed)})")
            elif "token" in given:
                options.append("REST_AUTHENTICATION = (TYPE = BEARER BEARER_TOKEN = '<token>')")
        case "glue":
            options += ["CATALOG_SOURCE = GLUE", f"CATALOG_NAMESPACE = {text_literal(namespace)}"]
            options += [
                "GLUE_AWS_ROLE_ARN = '<role>'",
                f"GLUE_CATALOG_ID = {text_literal(given.get('glue.id', '<account>'))}",
            ]
        case _:
            options.append("CATALOG_SOURCE = OBJECT_STORE")
            where = [f"METADATA_FILE_PATH = {text_literal('metadata/' + metadata.rpartition('/')[2])}"]
    made = "\n  ".join(["CREATE CATALOG INTEGRATION lake", *options])
    table = "\n  ".join(
        [f"CREATE ICEBERG TABLE {double_quoted(name)}", "EXTERNAL_VOLUME = '<volume>'", "CATALOG = 'LAKE'", *where]
    )
    return QueryExample("Snowflake", f"{made};\n{table};\nSELECT * FROM {double_quoted(name)} LIMIT 10;")


def _athena(namespace: str, name: str) -> QueryExample:
    return QueryExample("Athena", f"SELECT * FROM {double_quoted(namespace)}.{double_quoted(name)} LIMIT 10;")


def _named(given: Mapping[str, str], prefix: str, names: Mapping[str, str]) -> list[str]:
    return [f"{prefix}{name}={given[key]}" for key, name in names.items() if key in given]


def _back(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
