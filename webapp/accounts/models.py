"""API tokens and one-time logins; only digests are stored (invariant 8)."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from webapp.accounts.roles import Role


class ApiToken(models.Model):
    """`prefix` is the readable beginning of the token; `digest` the SHA-256 of the whole; `role`: at most its
    user's.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12)
    digest = models.CharField(max_length=64, unique=True)
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.ADMIN)
    expires_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class FailedSignIn(models.Model):
    """Kept for a day; `address` is the client's."""

    name = models.CharField(max_length=150)
    address = models.CharField(max_length=64)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = (models.Index(fields=("at",)),)

    def __str__(self) -> str:
        return f"{self.name} from {self.address}"


class AuditEntry(models.Model):
    """One audited action; its row outlives the user and the object that it names.

    who: the user's name, the name typed for a failed sign-in, or `command line` without a user; token: its name, empty
    in the browser; address: the client's.
    about: a replicator's, connection's or user's name.
    detail: values before and after, without secrets: {"changes": {"slo_minutes": [5, 10]}}.
    """

    at = models.DateTimeField(auto_now_add=True)
    who = models.CharField(max_length=150, blank=True)
    token = models.CharField(max_length=100, blank=True)
    address = models.CharField(max_length=64, blank=True)
    kind = models.CharField(max_length=40)
    about = models.CharField(max_length=255, blank=True)
    summary = models.CharField(max_length=500)
    detail = models.JSONField(default=dict)

    class Meta:
        ordering = ("-at", "-id")
        indexes = (models.Index(fields=("-at", "-id")), models.Index(fields=("who", "-at")))

    def __str__(self) -> str:
        return self.summary


class OneTimeLogin(models.Model):
    """A link that signs a user in once."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="one_time_logins")
    digest = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"login link of {self.user}"
