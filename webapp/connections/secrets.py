"""Encryption of connection secrets at rest: Fernet under a key derived from TIDEMARK_SECRET_KEY."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from contextlib import suppress

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

from replicator.errors import ConfigurationError
from webapp import environment


def _fernet(*keys: str) -> MultiFernet:
    """Encrypts under the first, decrypts under any."""
    return MultiFernet([_under(key) for key in keys])


def _under(key: str) -> Fernet:
    derived = HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=b"tidemark connection secrets 1")
    return Fernet(base64.urlsafe_b64encode(derived.derive(key.encode())))


def seal(values: Mapping[str, str]) -> str:
    """Empty for nothing to hide."""
    return _fernet(settings.SECRET_KEY).encrypt(json.dumps(dict(values)).encode()).decode() if values else ""


def unseal(token: str) -> dict[str, str]:
    """Inverse of `seal`; ConfigurationError where the key is another one now."""
    if not token:
        return {}
    for keys in (_known_keys, _present_keys):
        with suppress(InvalidToken):
            return dict(json.loads(_fernet(*keys()).decrypt(token.encode())))
    raise ConfigurationError(
        "The secrets of this connection cannot be decrypted because TIDEMARK_SECRET_KEY has changed.",
        remedy="Set TIDEMARK_SECRET_KEY back to its old value, or enter the password of the connection again.",
    )


def resealed(token: str) -> str:
    """The same under the present key; empty where it is already.  ConfigurationError as `unseal`."""
    with suppress(InvalidToken):
        _under(settings.SECRET_KEY).decrypt(token.encode())
        return ""
    return seal(unseal(token))


def _known_keys() -> list[str]:
    return [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]


def _present_keys() -> list[str]:
    """The key may have been changed since this process began (`manage.py rotate_key`)."""
    return [environment.secret_key(settings.TIDEMARK_HOME), *environment.old_secret_keys(settings.TIDEMARK_HOME)]
