"""Encryption of connection secrets at rest: Fernet under a key derived from TIDEMARK_SECRET_KEY."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

from replicator.errors import ConfigurationError


def _fernet() -> Fernet:
    key = HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=b"tidemark connection secrets 1")
    return Fernet(base64.urlsafe_b64encode(key.derive(settings.SECRET_KEY.encode())))


def seal(values: Mapping[str, str]) -> str:
    """Empty for nothing to hide."""
    return _fernet().encrypt(json.dumps(dict(values)).encode()).decode() if values else ""


def unseal(token: str) -> dict[str, str]:
    """Inverse of `seal`; ConfigurationError where the key is another one now."""
    if not token:
        return {}
    try:
        return dict(json.loads(_fernet().decrypt(token.encode())))
    except InvalidToken:
        raise ConfigurationError(
            "The secrets of this connection cannot be decrypted: TIDEMARK_SECRET_KEY is not the one they were stored under.",
            remedy="Set TIDEMARK_SECRET_KEY back to its old value, or type the password into the connection again.",
        ) from None
