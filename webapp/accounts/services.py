"""Tokens and one-time logins.  The plain text is returned once and kept nowhere (invariant 8)."""

from __future__ import annotations

import hashlib
import logging
import secrets
from datetime import timedelta

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.utils import timezone

from webapp.accounts.models import ApiToken, FailedSignIn, OneTimeLogin

TOKEN_MARK = "tdm_"  # noqa: S105 - the beginning that all tokens share
SEEN_EVERY = timedelta(minutes=1)
GUESSING_WINDOW = timedelta(minutes=10)
GUESSES, GUESSES_IN_ALL = 5, 50
LOGGER = logging.getLogger("tidemark.web")


def digest(plain: str) -> str:
    """SHA-256 is enough: the plain text has 256 random bits."""
    return hashlib.sha256(plain.encode()).hexdigest()


def create_token(*, user: User, name: str) -> str:
    """A new API token in plain text."""
    plain = TOKEN_MARK + secrets.token_urlsafe(32)
    ApiToken.objects.create(user=user, name=name, prefix=plain[:10], digest=digest(plain))
    return plain


def revoke_token(*, token: ApiToken) -> None:
    """Takes effect at once."""
    token.delete()


def user_for_token(*, plain: str) -> User | None:
    """The active user of a token, whose last use is noted (at most once a minute)."""
    token = ApiToken.objects.select_related("user").filter(digest=digest(plain), user__is_active=True).first()
    if token is None:
        return None
    now = timezone.now()
    if token.last_used_at is None or now - token.last_used_at > SEEN_EVERY:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token.user


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
    """PermissionDenied where so many sign-ins failed lately that somebody may be guessing.

    By name and address, so that a stranger locks nobody out of an account but from his own address; and by each of them alone, much later.
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


def ensure_admin(*, username: str = "admin") -> User:
    """The first user of an installation; without a usable password until somebody sets one."""
    user, created = get_user_model().objects.get_or_create(
        username=username, defaults={"is_staff": True, "is_superuser": True}
    )
    if created:
        user.set_unusable_password()
        user.save()
    return user
