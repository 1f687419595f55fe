"""Tokens and one-time logins.  The plain text is returned once and kept nowhere (invariant 8)."""

from __future__ import annotations

import hashlib
import logging
import secrets
from datetime import timedelta

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.utils import timezone

from replicator.errors import ConfigurationError
from webapp.accounts import audit
from webapp.accounts.models import ApiToken, FailedSignIn, OneTimeLogin
from webapp.accounts.roles import Role, role_of, set_role

TOKEN_MARK = "tdm_"  # noqa: S105 - the beginning that all tokens share
SEEN_EVERY = timedelta(minutes=1)
GUESSING_WINDOW = timedelta(minutes=10)
GUESSES, GUESSES_IN_ALL = 5, 50
LOGGER = logging.getLogger("tidemark.web")


def digest(plain: str) -> str:
    """SHA-256 is enough: the plain text has 256 random bits."""
    return hashlib.sha256(plain.encode()).hexdigest()


def create_token(
    *, user: User, name: str, role: Role = Role.ADMIN, days: int | None = None, most: Role | None = None
) -> str:
    """Create an API token that expires after `days` days; return it in plain text.

    `most`: the role of the requester, which the token cannot exceed.
    """
    most = most or role_of(user)
    role = min(Role(role), most, key=lambda one: one.rank)
    plain = TOKEN_MARK + secrets.token_urlsafe(32)
    ends = None if days is None else timezone.now() + timedelta(days=days)
    ApiToken.objects.create(user=user, name=name, prefix=plain[:10], digest=digest(plain), role=role, expires_at=ends)
    until = f", until {ends:%Y-%m-%d}" if ends else ", no expiry"
    audit.enter("token_created", f"Token {name} created ({role.word.lower()}{until})", user=user, about=name)
    return plain


def revoke_token(*, token: ApiToken) -> None:
    """Takes effect at once."""
    audit.enter("token_revoked", f"Token {token.name} revoked", user=token.user, about=token.name)
    token.delete()


def token_for(*, plain: str) -> ApiToken | None:
    """A token that works, with its user; its use is noted (at most once a minute)."""
    token = ApiToken.objects.select_related("user").filter(digest=digest(plain), user__is_active=True).first()
    now = timezone.now()
    if token is None or (token.expires_at is not None and token.expires_at <= now):
        return None
    if token.last_used_at is None or now - token.last_used_at > SEEN_EVERY:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    audit.came_with(token.name, token.user.get_username())
    return token


@transaction.atomic
def create_user(*, name: str, password: str, role: Role, by: User | None = None) -> User:
    """ConfigurationError for a name that is taken or a password that is easily guessed."""
    users = get_user_model().objects
    if users.filter(username__iexact=name.strip()).exists() or not name.strip():
        raise ConfigurationError(
            f"There is already a user named {name.strip()}." if name.strip() else "A user needs a name."
        )
    user = get_user_model()(username=name.strip())
    _set_password(user, password)
    set_role(user, Role(role))
    user.save()
    audit.enter(
        "user_created", f"User {user.username} created ({Role(role).word.lower()})", user=by, about=user.username
    )
    return user


@transaction.atomic
def update_user(
    *, user: User, role: Role | None = None, active: bool | None = None, password: str = "", by: User | None = None
) -> User:
    """ConfigurationError where it would leave no admin who can sign in."""
    list(get_user_model().objects.select_for_update().filter(is_superuser=True).order_by("pk"))
    fresh = get_user_model().objects.select_for_update().get(pk=user.pk)
    before = {"role": str(role_of(fresh)), "active": fresh.is_active}
    if role is not None:
        set_role(fresh, Role(role))
    if active is not None:
        fresh.is_active = active
    if password:
        _set_password(fresh, password)
    others = get_user_model().objects.filter(is_superuser=True, is_active=True).exclude(pk=fresh.pk)
    if not (fresh.is_superuser and fresh.is_active) and not others.exists():
        raise ConfigurationError("This is the only admin.", remedy="Make another user an admin first.")
    fresh.save()
    changed = audit.changes(before, {"role": str(role_of(fresh)), "active": fresh.is_active})
    said = [f"{name} {old} → {new}" for name, (old, new) in changed.items()] + ["password"] * bool(password)
    if said:
        summary = f"User {fresh.username} changed: {', '.join(said)}"
        audit.enter("user_changed", summary, user=by, about=fresh.username, detail={"changes": changed})
    return fresh


def change_password(*, user: User, old: str, new: str) -> None:
    """One's own.  ConfigurationError; sessions elsewhere end."""
    if user.has_usable_password() and not user.check_password(old):
        raise ConfigurationError("The current password is wrong.")
    _set_password(user, new)
    user.save()
    audit.enter("user_changed", f"User {user.username} changed: password", user=user, about=user.username)


def _set_password(user: User, password: str) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise ConfigurationError(" ".join(error.messages)) from None
    user.set_password(password)


def create_one_time_login(*, user: User, minutes: int = 15) -> str:
    """The token of a link that signs `user` in once."""
    plain = secrets.token_urlsafe(32)
    OneTimeLogin.objects.create(user=user, digest=digest(plain), expires_at=timezone.now() + timedelta(minutes=minutes))
    return plain


@transaction.atomic
def use_one_time_login(*, token: str) -> User | None:
    """The user, the first time and in time; None otherwise.  Compare-and-set, so that two clicks give one login."""
    now = timezone.now()
    fresh = OneTimeLogin.objects.filter(digest=digest(token), used_at=None, expires_at__gt=now, user__is_active=True)
    if fresh.update(used_at=now) != 1:
        return None
    return OneTimeLogin.objects.select_related("user").get(digest=digest(token)).user


def refuse_guessing(*, name: str, address: str) -> None:
    """PermissionDenied after too many failed sign-ins within `GUESSING_WINDOW`.

    Counted by name and address together, so that a stranger can lock a user out from the stranger's own address only.
    Name alone and address alone have a far higher limit (`GUESSES_IN_ALL`).
    """
    lately = FailedSignIn.objects.filter(at__gt=timezone.now() - GUESSING_WINDOW)
    mine, his = lately.filter(name=name), lately.filter(address=address)
    if mine.filter(address=address).count() >= GUESSES or max(mine.count(), his.count()) >= GUESSES_IN_ALL:
        minutes = int(GUESSING_WINDOW.total_seconds() // 60)
        message = f"Too many sign-ins failed. Try again in {minutes} minutes."
        raise PermissionDenied(message)


def note_failed_sign_in(*, name: str, address: str) -> None:
    """Counted, and said in the process's log."""
    LOGGER.warning("A sign-in failed: %r from %s", name, address)
    FailedSignIn.objects.filter(at__lt=timezone.now() - timedelta(days=1)).delete()
    FailedSignIn.objects.create(name=name, address=address)
    audit.enter("sign_in_failed", "A sign-in failed", who=name)


def ensure_admin(*, username: str = "admin") -> User:
    """Return the first user of an installation; created where missing, without a usable password."""
    user, created = get_user_model().objects.get_or_create(
        username=username, defaults={"is_staff": True, "is_superuser": True}
    )
    if created:
        user.set_unusable_password()
        user.save()
    return user
