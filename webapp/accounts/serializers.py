"""Accounts in the REST API."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from rest_framework import serializers

from webapp.accounts.models import ApiToken, AuditEntry
from webapp.accounts.roles import Role, role_of

ROLES = Role.choices


class MeSerializer(serializers.Serializer[dict[str, Any]]):
    """Whose token this is."""

    username = serializers.CharField()
    role = serializers.ChoiceField(ROLES)


class TokenSerializer(serializers.ModelSerializer[ApiToken]):
    """A token without its value."""

    class Meta:
        model = ApiToken
        fields: tuple[str, ...] = ("id", "name", "prefix", "role", "expires_at", "created_at", "last_used_at")
        read_only_fields: tuple[str, ...] = fields


class TokenCreateSerializer(serializers.Serializer[None]):
    """`name` is for the list of tokens."""

    name = serializers.CharField(max_length=100)
    role = serializers.ChoiceField(ROLES, default=Role.ADMIN.value, help_text="At most the role of the caller")
    days = serializers.IntegerField(
        min_value=1,
        max_value=3650,
        required=False,
        allow_null=True,
        help_text="Days until it expires; never if left out",
    )


class NewTokenSerializer(TokenSerializer):
    """The one answer that holds the token."""

    token = serializers.CharField(help_text="Shown once; only a digest is stored")

    class Meta(TokenSerializer.Meta):
        fields = (*TokenSerializer.Meta.fields, "token")
        read_only_fields = fields


class UserSerializer(serializers.Serializer[User]):
    """A user account."""

    id = serializers.IntegerField()
    username = serializers.CharField()
    role = serializers.SerializerMethodField()
    active = serializers.BooleanField(source="is_active")
    last_login = serializers.DateTimeField(allow_null=True)

    def get_role(self, user: User) -> str:
        """Their own, without a token's limit."""
        return str(role_of(user))


class UserCreateSerializer(serializers.Serializer[None]):
    """A new account."""

    username = serializers.CharField(max_length=150)
    password = serializers.CharField(max_length=200, write_only=True)
    role = serializers.ChoiceField(ROLES)


class UserUpdateSerializer(serializers.Serializer[None]):
    """What is left out stays."""

    role = serializers.ChoiceField(ROLES, required=False)
    active = serializers.BooleanField(required=False)
    password = serializers.CharField(max_length=200, write_only=True, required=False)


class AuditSerializer(serializers.ModelSerializer[AuditEntry]):
    """A line of the audit log."""

    class Meta:
        model = AuditEntry
        fields = ("id", "at", "who", "token", "address", "kind", "about", "summary", "detail")
        read_only_fields = fields
