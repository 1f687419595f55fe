"""Accounts in the REST API."""

from __future__ import annotations

from rest_framework import serializers

from webapp.accounts.models import ApiToken


class MeSerializer(serializers.Serializer):
    """Whose token this is."""

    username = serializers.CharField()
    is_staff = serializers.BooleanField()


class TokenSerializer(serializers.ModelSerializer):
    """A token without its value."""

    class Meta:
        model = ApiToken
        fields = ("id", "name", "prefix", "created_at", "last_used_at")
        read_only_fields = fields


class TokenCreateSerializer(serializers.Serializer):
    """`name` is for the list of tokens."""

    name = serializers.CharField(max_length=100)


class NewTokenSerializer(TokenSerializer):
    """The one answer that holds the token."""

    token = serializers.CharField(help_text="Shown this once; only a digest is kept")

    class Meta(TokenSerializer.Meta):
        fields = (*TokenSerializer.Meta.fields, "token")
        read_only_fields = fields
