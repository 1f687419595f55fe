"""Making, changing, testing and removing endpoints: the same for sources' connections and for destinations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Generic, TypeVar

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F
from django.dispatch import Signal
from django.utils import timezone

from replicator.errors import ConfigurationError
from replicator.redaction import redacted
from replicator.sources.base import CheckResult, CheckStatus
from webapp.accounts.audit import changes, enter
from webapp.connections.fields import Stored, split
from webapp.connections.models import Endpoint
from webapp.connections.secrets import seal, unseal
from webapp.connections.selectors import full_config

E = TypeVar("E", bound=Endpoint)


@dataclass(frozen=True)
class Endpoints(Generic[E]):
    """Operations on connections, or on destinations.

    word: what one is called; valid: ConfigurationError for settings of a kind that make no sense.
    run: tests the settings, secrets included, and what the replicators of the endpoint read, where one is given; never
    raises for what it tests.
    apply: restarts what uses the endpoint, with the new values.
    guard: tests the values; ConfigurationError where what uses the endpoint could not continue with them.  None: they
    are stored untested.
    changed, works: signals whose argument for the endpoint is named `word`.
    """

    model: type[E]
    word: str
    valid: Callable[[str, Mapping[str, Any]], object]
    run: Callable[[str, Mapping[str, Any], E | None], list[CheckResult]]
    apply: Callable[[E], None]
    changed: Signal
    works: Signal
    guard: Callable[[E, Mapping[str, Any]], None] | None = None

    @transaction.atomic
    def create(self, *, name: str, kind: str, config: Mapping[str, Any], user: User | None = None) -> E:
        """ConfigurationError that names the field which is missing or wrong."""
        self._check_name(name)
        public, secret = self.checked(kind, config)
        by = user if user and user.is_authenticated else None
        made: E = self.model._default_manager.create(  # noqa: SLF001 - Django's own name for it
            name=name.strip(), kind=kind, config=public, secrets=seal(secret), created_by=by
        )
        self._audit("created", made, user, changes({}, public))
        return made

    @transaction.atomic
    def update(
        self, endpoint: E, *, name: str | None = None, config: Mapping[str, Any] | None = None, user: User | None = None
    ) -> E:
        """An empty secret keeps the stored one, unless it would go elsewhere.

        Running replicators read the new values at their next slice.
        """
        changed, before = [], {"name": endpoint.name, **endpoint.config}
        if name is not None and name.strip() != endpoint.name:
            self._check_name(name)
            endpoint.name = name.strip()
            changed.append("name")
        if config is not None:
            old = endpoint.config
            endpoint.config, secret = self.checked(endpoint.kind, config, self.stored(endpoint, config))
            endpoint.secrets = seal(secret)
            changed += [name for name, value in endpoint.config.items() if old.get(name) != value]
            changed += self._secrets_in(endpoint.kind, config)
            self.apply(endpoint)
        endpoint.save()
        if changed:  # which settings, never a value of one (invariant 8)
            summary = f"The {self.word} {endpoint.name} was changed: {', '.join(sorted(changed))}"
            self.changed.send(self.model, **{self.word: endpoint}, summary=summary, user=user)
        self._audit("changed", endpoint, user, changes(before, {"name": endpoint.name, **endpoint.config}), changed)
        if config is not None:
            self._works(endpoint, f"the {self.word} {endpoint.name} was changed", user)
        return endpoint

    def try_out(self, endpoint: E, config: Mapping[str, Any]) -> None:
        """For people, before `update`: ConfigurationError for what is wrong, or would not work.  Takes a while."""
        if self.guard is None:
            return
        public, secret = self.checked(endpoint.kind, config, self.stored(endpoint, config))
        if public != endpoint.config or self._secrets_in(endpoint.kind, config):
            self.guard(endpoint, {**public, **secret})

    def delete(self, endpoint: E, *, user: User | None = None) -> None:
        """ConfigurationError while a replicator uses it."""
        names = list(endpoint.replicators.values_list("name", flat=True)[:3])  # type: ignore[attr-defined]
        if names:
            raise ConfigurationError(
                f"The {self.word} {endpoint.name} is used by {', '.join(names)}.",
                remedy="Delete these replicators first.",
            )
        self._audit("deleted", endpoint, user)
        endpoint.delete()

    def test(self, *, kind: str, config: Mapping[str, Any], endpoint: E | None = None) -> list[CheckResult]:
        """Run the kind's checks; with `endpoint`, what is not given is as it is stored, and the result is stored on it.

        ConfigurationError for settings that are wrong, and for a stored secret that would go elsewhere than it was
        entered for.
        """
        given = config if endpoint is None else {**endpoint.config, **config}
        public, secret = self.checked(kind, given, None if endpoint is None else self.stored(endpoint, given))
        values = {**public, **secret}
        results = without_secrets(self.run(kind, values, endpoint))
        if endpoint is not None:
            lines = [asdict(result) | {"status": str(result.status)} for result in results]
            stored = self.model._default_manager.filter(pk=endpoint.pk)  # noqa: SLF001
            stored.update(last_check=lines, last_checked_at=timezone.now())
            endpoint.refresh_from_db(fields=["last_check", "last_checked_at"])
            refused = any(result.status is CheckStatus.FAILED and not result.of_tables for result in results)
            if values == full_config(endpoint) and not refused:
                self._works(endpoint, f"the test of the {self.word} {endpoint.name} passed", None)
        return results

    def checked(
        self, kind: str, config: Mapping[str, Any], stored: Stored | None = None
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Public settings with defaults, and secret ones; ConfigurationError for what is not known or makes no
        sense.
        """
        public, secret = split(self.model.form_of(kind), config, stored)
        self.valid(kind, {**public, **secret})
        return public, secret

    def stored(self, endpoint: E, config: Mapping[str, Any]) -> Stored:
        """Its secrets are decrypted only where one of them is left out: where that fails, all can be given again."""
        needed = any(field.secret and not config.get(field.name) for field in self.model.form_of(endpoint.kind))
        return Stored(endpoint.config, unseal(endpoint.secrets) if needed else {})

    def _secrets_in(self, kind: str, config: Mapping[str, Any]) -> list[str]:
        """Names of the secrets that are given."""
        return [field.name for field in self.model.form_of(kind) if field.secret and config.get(field.name)]

    def _works(self, endpoint: E, why: str, user: User | None) -> None:
        self.works.send(self.model, **{self.word: endpoint}, why=why, user=user)

    def _audit(
        self,
        what: str,
        endpoint: E,
        user: User | None,
        changed: Mapping[str, Any] | None = None,
        names: Sequence[str] = (),
    ) -> None:
        """Secrets by their names only."""
        said = f": {', '.join(sorted(set(names)))}" if names else ""
        enter(
            f"{self.word}_{what}", f"{self.word.capitalize()} {endpoint.name} {what}{said}", user=user,
            about=endpoint.name, detail={"changes": dict(changed)} if changed else {},
        )  # fmt: skip

    def _check_name(self, name: str) -> None:
        if not name.strip():
            raise ConfigurationError(f"A {self.word} needs a name.")
        if self.model._default_manager.filter(name=name.strip()).exists():  # noqa: SLF001
            message = f"There is already a {self.word} named {name.strip()}."
            raise ConfigurationError(message, remedy="Choose another name.")


def without_secrets(found: Iterable[CheckResult]) -> list[CheckResult]:
    """What a server or a client says may repeat what it was sent (invariant 8)."""
    return [replace(one, detail=redacted(one.detail), remedy=redacted(one.remedy)) for one in found]


def restart_replicators(endpoint: Endpoint) -> None:
    """Make running slices end, and waiting ones begin, so that the next one opens the endpoint with the new values."""
    replicators = endpoint.replicators.order_by("id")  # type: ignore[attr-defined]
    replicators.update(next_retry_at=None, plan_version=F("plan_version") + 1)
    for replicator in replicators:  # what a stage waits for is its failures' time
        replicator.failures.filter(table=None, resolved_at=None).update(next_retry_at=None)
