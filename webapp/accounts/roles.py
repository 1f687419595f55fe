"""Who may do what: a viewer sees, an operator runs, an admin changes what is copied, from where, and who may.

One table by the names of the addresses, for pages and the API alike; what it does not name needs an admin unless it
only reads. A user's role is Django's own flags, so that `createsuperuser` makes an admin; a token's is at most its
user's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.db import models
from django.urls import Resolver404, ResolverMatch, resolve

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class Role(models.TextChoices):
    """In order: each may do what those before it may."""

    VIEWER = "viewer", "Viewer: sees everything but data and settings of secrets"
    OPERATOR = "operator", "Operator: starts, pauses, resnapshots, resolves failures"
    ADMIN = "admin", "Admin: changes connections, replicators, masks and users"

    @property
    def rank(self) -> int:
        return list(Role).index(self)

    @property
    def word(self) -> str:
        return str(self.label).partition(":")[0]


# Addresses that change nothing for others: who is signed in may use them.
OWN = frozenset({
    "accounts:sign_in", "accounts:sign_in_once", "accounts:sign_out", "accounts:tokens", "accounts:revoke_token",
    "accounts:password",
    "api-token-list", "api-token-detail", "api-me",
    "api-stream-ack", "api-stream-group-join", "api-stream-group-heartbeat", "api-stream-group-leave",
})  # fmt: skip
RUNS = frozenset({
    "replicators:act", "replicators:act_on_table", "replicators:table_snapshots", "monitoring:act_on_dead_letter",
    "monitoring:objective",
    "alerts:snooze", "alerts:quiet", "alerts:test_rules", "alerts:save_rules", "connections:test",
    "destinations:test", "api-destination-test",
    "api-connection-test", "api-connection-describe", "api-alert-rule", "api-alert-rules-snooze",
    "api-alert-rules-test", "api-table-objective",
    "api-replicator-pause", "api-replicator-resume", "api-replicator-retry", "api-replicator-start",
    "api-replicator-start-anew",
    "api-replicator-stop", "api-replicator-snapshots-pause", "api-replicator-snapshots-resume",
    "api-table-cancel-snapshot", "api-table-pause-snapshot", "api-table-resnapshot", "api-table-resume",
    "api-table-resume-snapshot",
    "api-table-retry", "api-table-skip", "api-table-snapshot", "api-table-stop-snapshot",
    "api-dead-letter-row-discard", "api-dead-letter-row-replay", "api-stream-group",
})  # fmt: skip
# Among those, by the last part of the address.
NOT_RUNS = {"replicators:act": {"delete"}, "replicators:act_on_table": {"remove"}}
# What is only read and yet not for all: rows of the source, what it has, forms of what only an admin changes, who did
# what.
READ_BY: Mapping[str, Role] = {
    **dict.fromkeys(("monitoring:dead_letter_bytes", "api-dead-letter-row-data",
            "replicators:table_preview", "api-table-preview", "api-connection-databases",
            "api-connection-tables"), Role.OPERATOR),
    **dict.fromkeys((
        "replicators:new", "replicators:step", "replicators:listing", "replicators:pick", "replicators:pattern",
        "replicators:columns",
        "connections:new", "connections:edit", "connections:guide", "destinations:new", "destinations:edit",
        "destinations:guide",
        "alerts:channel", "accounts:users", "accounts:audit",
        "api-user-list", "api-user-detail", "api-audit-list",
    ), Role.ADMIN),
}  # fmt: skip


def role_of(user: User | AnonymousUser, auth: Any = None) -> Role:
    """`auth`: the token that the request came with, if any."""
    own = Role.ADMIN if user.is_superuser else Role.OPERATOR if user.is_staff else Role.VIEWER
    lent = Role(auth.role) if auth is not None else own
    return min(own, lent, key=lambda role: role.rank)


def set_role(user: User, role: Role) -> None:
    """Not saved."""
    user.is_superuser, user.is_staff = role is Role.ADMIN, role is not Role.VIEWER


def needed(match: ResolverMatch, method: str) -> Role:
    """The least role for an address and a method."""
    name = match.view_name or ""
    if name in OWN:
        return Role.VIEWER
    if method in SAFE:
        return READ_BY.get(name, Role.VIEWER)
    return Role.OPERATOR if name in RUNS and match.kwargs.get("action") not in NOT_RUNS.get(name, ()) else Role.ADMIN


def may(role: Role, method: str, path: str) -> bool:
    """Return whether the role may request this path; True for a path that does not exist."""
    try:
        return role.rank >= needed(resolve(path.partition("?")[0].partition("#")[0]), method).rank
    except Resolver404:
        return True


def refusal(least: Role) -> str:
    """In a sentence."""
    article = "an" if least.word[0] in "AO" else "a"
    return f"This takes {article} {least.word.lower()}."
