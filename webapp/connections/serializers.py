"""Connections in the REST API.  Secrets go in and never come out (invariant 8)."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from replicator.errors import TableError
from replicator.sources.base import CheckResult, DatabaseInfo, FormField, TableInfo
from replicator.sources.registry import SourceKind
from webapp.connections import selectors
from webapp.connections.models import Connection, Endpoint


class FormFieldSerializer(serializers.Serializer[FormField]):
    """One setting of a kind of source."""

    name = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]  # declared fields are not attributes of the class
    kind = serializers.CharField()
    required = serializers.BooleanField()  # type: ignore[assignment]  # as `label`
    default = serializers.CharField()
    help = serializers.CharField()
    secret = serializers.BooleanField(help_text="Write-only")
    choices = serializers.SerializerMethodField()
    when = serializers.SerializerMethodField(help_text="Another field, and its values with which this one is used")

    def get_when(self, field: FormField) -> dict[str, list[str]]:
        """Empty: always."""
        return {name: list(values) for name, values in field.when}

    def get_choices(self, field: FormField) -> list[str]:
        """Allowed values; empty where any text goes."""
        return [value for value, _ in field.choices]


class KindSerializer(serializers.Serializer[SourceKind]):
    """A kind of source."""

    name = serializers.CharField()
    title = serializers.CharField()
    about = serializers.CharField(help_text="Which servers")
    database_word = serializers.CharField(help_text="What a database of the selection is called there")
    proof = serializers.CharField(help_text="On what its tests run; empty where no label is needed")
    form = FormFieldSerializer(many=True)
    guide = serializers.CharField(help_text="Setup guide, Markdown")


class CheckSerializer(serializers.Serializer[CheckResult]):
    """One line of the connection test."""

    name = serializers.CharField()
    title = serializers.CharField()
    status = serializers.CharField(help_text="ok, warning, failed or skipped")
    detail = serializers.CharField()
    remedy = serializers.CharField(help_text="SQL to paste, or a sentence")


class EndpointSerializer(serializers.ModelSerializer[Any]):
    """One without its secrets."""

    config = serializers.SerializerMethodField()
    secrets_set = serializers.SerializerMethodField()
    check_status = serializers.CharField(read_only=True)
    last_check = CheckSerializer(many=True, read_only=True)
    replicators = serializers.SerializerMethodField()

    class Meta:
        fields = (
            "id", "name", "kind", "config", "secrets_set", "check_status", "last_check", "last_checked_at",
            "replicators", "created_at", "updated_at",
        )  # fmt: skip
        read_only_fields = fields

    @extend_schema_field(serializers.DictField())
    def get_config(self, endpoint: Endpoint) -> dict[str, Any]:
        """Settings without secrets."""
        return selectors.public_config(endpoint)

    def get_secrets_set(self, endpoint: Endpoint) -> bool:
        """True where a secret is stored."""
        return bool(endpoint.secrets)

    def get_replicators(self, endpoint: Any) -> list[str]:
        """Names of the replicators that use it."""
        return [replicator.name for replicator in endpoint.replicators.all()]


class ConnectionSerializer(EndpointSerializer):
    class Meta(EndpointSerializer.Meta):
        model = Connection


class EndpointCreateSerializer(serializers.Serializer[None]):
    """`config` holds the settings that the kinds list, secrets included."""

    name = serializers.CharField(max_length=100)
    kind = serializers.CharField()
    config = serializers.DictField(write_only=True, required=False, default=dict)


class EndpointUpdateSerializer(serializers.Serializer[None]):
    """What is left out stays as it is."""

    name = serializers.CharField(max_length=100, required=False)
    config = serializers.DictField(write_only=True, required=False)


class EndpointTrySerializer(serializers.Serializer[None]):
    """Settings to test before they are stored."""

    kind = serializers.CharField()
    config = serializers.DictField(write_only=True)


class TestResultSerializer(serializers.Serializer[dict[str, Any]]):
    """`ok` is false where a check failed; warnings do not count."""

    __test__ = False
    ok = serializers.BooleanField()
    checks = CheckSerializer(many=True)


class DatabaseSerializer(serializers.Serializer[DatabaseInfo]):
    """Estimates."""

    name = serializers.CharField()
    tables = serializers.IntegerField()
    bytes = serializers.IntegerField()


class TableNameSerializer(serializers.Serializer[None]):
    """A table of the source."""

    database = serializers.CharField()
    table = serializers.CharField()


class TableInfoSerializer(serializers.Serializer[TableInfo]):
    """A table as discovery lists it; rows and bytes are estimates."""

    database = serializers.CharField(source="table.database")
    table = serializers.CharField(source="table.name")
    rows = serializers.IntegerField()
    bytes = serializers.IntegerField()
    key = serializers.CharField(help_text="primary, unique, or empty for a table without key")
    engine = serializers.CharField()


class DescribeSerializer(serializers.Serializer[None]):
    """Which tables to describe."""

    tables = TableNameSerializer(many=True, allow_empty=False)


class ColumnSerializer(serializers.Serializer[dict[str, Any]]):
    """A column and its type in the target."""

    name = serializers.CharField()
    type = serializers.CharField()
    nullable = serializers.BooleanField()
    source_type = serializers.CharField()
    warning = serializers.CharField()


class DescribedSerializer(serializers.Serializer[dict[str, Any]]):
    """A table's present definition; `error` where a column's type is unknown, or the table does not exist."""

    database = serializers.CharField()
    table = serializers.CharField()
    columns = ColumnSerializer(many=True)
    key = serializers.ListField(child=serializers.CharField())
    error = serializers.CharField()


def described(name: dict[str, str], found: Any) -> dict[str, Any]:
    """The form of `DescribedSerializer`."""
    empty: dict[str, Any] = {**name, "columns": [], "key": [], "error": ""}
    if found is None:
        return empty | {"error": "This table does not exist in the source."}
    if isinstance(found, TableError):
        return empty | {"error": found.message}
    columns = [
        {
            "name": c.name,
            "type": str(c.type),
            "nullable": c.nullable,
            "source_type": c.source_type,
            "warning": c.warning,
        }
        for c in found.columns
    ]
    return empty | {"columns": columns, "key": list(found.key)}
