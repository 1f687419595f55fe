"""How Tidemark signs in to Google Cloud: a service account's key, or what the workers have, and impersonation.

google-auth is loaded only where credentials are made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from replicator.addresses import checked_host
from replicator.errors import ConfigurationError, TargetError, TargetUnauthorized
from replicator.sources.base import FormField
from replicator.sources.shared.settings import one_of, text
from replicator.targets.check import said

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
GOOGLE = ".googleapis.com"
KEY_FILE = "gcloud iam service-accounts keys create key.json --iam-account=ACCOUNT makes one."
WORKERS_OWN = (
    "Give the workers an identity: attach a service account to their machine or pod, or set"
    " GOOGLE_APPLICATION_CREDENTIALS. Or paste the key of a service account."
)
REFUSED = "Check the key or the identity of the workers: it may be deleted, disabled or expired."
REACH = "Retried automatically. Check that the workers reach Google's login service over HTTPS."
_PROJECT = re.compile(r"(?:[a-z0-9.-]{1,63}:)?[a-z][a-z0-9-]{4,28}[a-z0-9]")
_ACCOUNT = re.compile(r"[A-Za-z0-9._-]{1,100}@[A-Za-z0-9.-]{1,150}")
_KEY_FIELDS = ("client_email", "private_key", "token_uri")


class GoogleLogin(StrEnum):
    """How Tidemark proves who it is."""

    KEY = "key"
    ENVIRONMENT = "environment"


LOGIN_FORM = (
    FormField(
        "login", "Authentication", "choice", default=GoogleLogin.KEY, main=True,
        choices=((GoogleLogin.KEY, "Key of a service account"), (GoogleLogin.ENVIRONMENT, "The workers’ own identity")),
        help="Their own: an attached service account, workload identity, or GOOGLE_APPLICATION_CREDENTIALS.",
    ),
    FormField(
        "service_account_key", "Key of the service account (JSON)", "textarea", secret=True,
        when=(("login", (GoogleLogin.KEY.value,)),), help="The whole file.",
    ),
    FormField(
        "impersonate", "Service account to impersonate", required=False,
        help="An e-mail address. Empty: none. Needs the role Service Account Token Creator on that account.",
    ),
)  # fmt: skip


def check_login(settings: Mapping[str, Any]) -> None:
    """ConfigurationError for a login that cannot be.  Loads nothing."""
    if one_of(GoogleLogin, settings, "login", GoogleLogin.KEY) is GoogleLogin.KEY:
        _key(settings)
    account = text(settings, "impersonate")
    if account and not _ACCOUNT.fullmatch(account):
        message = f"impersonate is {account!r}; it must be the e-mail address of a service account."
        raise ConfigurationError(message)


def checked_project(settings: Mapping[str, Any]) -> str:
    """The project's id.  ConfigurationError where there is none, or it is none."""
    project = text(settings, "project")
    if not _PROJECT.fullmatch(project):
        raise ConfigurationError(
            f"project is {project!r}; it must be the id of a Google Cloud project, such as my-project-123.",
            remedy="gcloud projects list shows the ids.",
        )
    return project


def checked_endpoint(settings: Mapping[str, Any], name: str = "endpoint") -> str:
    """An address of Google's API without a path, or empty; http is taken of this machine only."""
    url = text(settings, name).rstrip("/")
    if not url:
        return ""
    parts = urlsplit(url)
    try:
        odd = parts.port == 0 or bool(parts.query or parts.fragment or parts.path) or "@" in parts.netloc
    except ValueError:
        odd = True
    plain = parts.scheme == "http" and parts.hostname in LOOPBACK
    if odd or not parts.hostname or not (parts.scheme == "https" or plain):
        message = f"{name} is {url!r}; it must be an address such as https://private.example.com."
        raise ConfigurationError(message, remedy="http:// is taken for this machine only.")
    checked_host(parts.hostname)
    return url


def credentials(settings: Mapping[str, Any], scopes: Sequence[str]) -> Any:
    """google.auth's credentials; they ask for tokens when they are first used.

    Raises ConfigurationError for settings that cannot be; TargetUnauthorized where the workers have no identity.
    """
    import google.auth  # noqa: PLC0415 - loaded where it is needed
    from google.auth import impersonated_credentials  # noqa: PLC0415

    check_login(settings)
    account = text(settings, "impersonate")
    with explained_login(settings):
        if one_of(GoogleLogin, settings, "login", GoogleLogin.KEY) is GoogleLogin.ENVIRONMENT:
            found, _ = google.auth.default(scopes=list(scopes))
        else:
            try:
                found = _of_account(json.dumps(_key(settings))).with_scopes(list(scopes))
            except ValueError:  # its text may hold the key (invariant 8)
                raise ConfigurationError("The private key within the service account's key cannot be read.") from None
        if account:
            found = impersonated_credentials.Credentials(found, account, list(scopes))
    return found


@lru_cache(maxsize=16)
def _of_account(key: str) -> Any:
    """Without scopes, and so without a token: to read a private key takes as long as a small merge."""
    from google.oauth2 import service_account  # noqa: PLC0415 - loaded where it is needed

    return service_account.Credentials.from_service_account_info(json.loads(key))


@contextmanager
def explained_login(settings: Mapping[str, Any]) -> Iterator[None]:
    """Raises TargetError with a remedy for what google.auth raises inside."""
    from google.auth import exceptions  # noqa: PLC0415 - loaded where it is needed

    try:
        yield
    except exceptions.DefaultCredentialsError:
        raise TargetUnauthorized("The workers have no Google identity.", remedy=WORKERS_OWN) from None
    except exceptions.TransportError as error:
        raise TargetError(f"Google's login service cannot be reached: {said(error)}", remedy=REACH) from None
    except exceptions.RefreshError as error:
        remedy = may_impersonate(settings) if text(settings, "impersonate") else REFUSED
        raise TargetUnauthorized(f"Google refused the login: {said(error)}", remedy=remedy) from None
    except exceptions.GoogleAuthError as error:
        raise TargetUnauthorized(f"Google's login failed: {said(error)}", remedy=REFUSED) from None


def signed_in(settings: Mapping[str, Any]) -> str:
    """Who does the work: the e-mail address of an account, or ACCOUNT where only the workers know it."""
    if account := text(settings, "impersonate"):
        return account
    return _own(settings)


def may_impersonate(settings: Mapping[str, Any]) -> str:
    """The command to paste."""
    return (
        f"gcloud iam service-accounts add-iam-policy-binding {text(settings, 'impersonate')}"
        f" --member=serviceAccount:{_own(settings)} --role=roles/iam.serviceAccountTokenCreator"
    )


def grant(settings: Mapping[str, Any], project: str, role: str) -> str:
    """The command that gives who does the work a role in a project.  role: such as roles/bigquery.jobUser."""
    member = f"serviceAccount:{signed_in(settings)}"
    return f"gcloud projects add-iam-policy-binding {project} --member={member} --role={role}"


def enable(project: str, service: str) -> str:
    """The command that turns an API on.  service: such as bigquery.googleapis.com."""
    return f"gcloud services enable {service} --project={project}"


def _own(settings: Mapping[str, Any]) -> str:
    if one_of(GoogleLogin, settings, "login", GoogleLogin.KEY) is GoogleLogin.ENVIRONMENT:
        return "ACCOUNT"
    try:
        return str(_key(settings)["client_email"])
    except ConfigurationError:
        return "ACCOUNT"


def _key(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a service account's key; other kinds of files are refused: they can name any program or address."""
    given = text(settings, "service_account_key")
    if not given:
        raise ConfigurationError("The destination has no service_account_key.", remedy=KEY_FILE)
    try:
        key = json.loads(given)
    except ValueError:
        key = None
    if not isinstance(key, dict) or key.get("type") != "service_account" or not all(map(key.get, _KEY_FIELDS)):
        raise ConfigurationError(
            "service_account_key is not the JSON file of a service account's key.", remedy=KEY_FILE
        )
    address = urlsplit(str(key["token_uri"]))
    host = (address.hostname or "").lower()
    if not (address.scheme == "https" and host.endswith(GOOGLE)) and not (
        address.scheme == "http" and host in LOOPBACK
    ):
        raise ConfigurationError("service_account_key names a token_uri that is not Google's.", remedy=KEY_FILE)
    if not _ACCOUNT.fullmatch(str(key["client_email"])):
        raise ConfigurationError("service_account_key has no e-mail address of an account.", remedy=KEY_FILE)
    return key
