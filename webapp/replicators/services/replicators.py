"""Making replicators and saying what they shall do.  The workers reconcile; nothing here waits for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from replicator.errors import (
    ConfigurationError,
    SourceAuthenticationFailed,
    SourceMisconfigured,
    SourcePermissionDenied,
    SourceReplaced,
    SourceUnreachable,
    SparkUnavailable,
    TargetConflict,
    TargetError,
    TargetUnauthorized,
)
from replicator.model.computed_rules import ComputedColumns
from replicator.state.tables import TableState
from replicator.targets.registry import target_kind
from webapp.accounts.audit import changes
from webapp.connections.models import Connection
from webapp.destinations.models import Destination
from webapp.destinations.services import DESTINATIONS
from webapp.replicators.models import Desired, Draft, Replicator, ReplicatorTable, Status
from webapp.replicators.options import PACE, ReplicatorOptions, check_seconds
from webapp.replicators.selection.entries import SelectionEntry, check_selection, rule_for, under, write_selection
from webapp.replicators.selection.target_names import keep_target_names
from webapp.replicators.services.tables import read_all_anew, read_recomputed, try_again
from webapp.replicators.signals import note
from webapp.replicators.targets import kind_of, parted, refuse_options, wanted_target

AFTER_RETRY = {Desired.RUNNING: Status.STARTING, Desired.DELETED: Status.DELETING}
OF_THE_CONNECTION = frozenset(
    error.code
    for error in (
        ConfigurationError, SourceAuthenticationFailed, SourceMisconfigured, SourcePermissionDenied, SourceReplaced,
        SourceUnreachable,
    )
)  # fmt: skip
OF_THE_DESTINATION = frozenset(
    error.code for error in (ConfigurationError, SparkUnavailable, TargetConflict, TargetError, TargetUnauthorized)
)
STARTED_BY_ITSELF = "started_anew_by_itself"


@transaction.atomic
def create_replicator(
    *,
    name: str,
    connection: Connection,
    selection: Sequence[SelectionEntry],
    destination: Destination | None = None,
    target: Mapping[str, Any] | None = None,
    options: ReplicatorOptions | Mapping[str, Any] | None = None,
    user: User | None = None,
    start: bool = False,
) -> Replicator:
    """ConfigurationError that names what is missing or wrong.  `options` may be their JSON form, partial.

    target: the replicator's own settings; without a destination, those of one, too (`wanted_target`).
    """
    _check_name(name)
    check_selection(selection)
    selection = under(rule_for(connection, selection), selection)
    wanted = _options(options)
    check_seconds(wanted.slo_minutes * 60)
    place, settings = wanted_target(target or {}, destination, user)
    refuse_options(target_kind(place.kind), wanted)
    replicator = Replicator.objects.create(
        name=name.strip(),
        connection=connection,
        destination=place,
        target=settings,
        options=wanted.to_dict(),
        created_by=user if user and user.is_authenticated else None,
    )
    write_selection(replicator, selection)
    note(replicator=replicator, kind="created", summary=f"Created from the connection {connection.name}", user=user)
    if start:
        start_replicator(replicator=replicator, user=user)
    return replicator


def _options(given: ReplicatorOptions | Mapping[str, Any] | None) -> ReplicatorOptions:
    return given if isinstance(given, ReplicatorOptions) else ReplicatorOptions.from_dict(given or {})


@transaction.atomic
def update_target(*, replicator: Replicator, target: Mapping[str, Any], user: User | None = None) -> list[str]:
    """Settings of its target, the destination's where no other replicator uses it; ConfigurationError for what would
    make it another one.

    target: what changes; what it does not name stays, null is the default.  Gives the names of what changed.

    Running slices read it at their next beginning, within a minute; what waits for its retry time, or has failed for
    a setting, is tried then.
    """
    rows = ReplicatorTable.objects.filter(replicator=replicator).order_by("id")
    tables = list(rows.select_for_update(no_key=True))  # before their replicator, as the workers lock them
    fresh = Replicator.objects.select_for_update(no_key=True).get(pk=replicator.pk)
    reach, own = parted(fresh, target)
    changed = sorted([*reach, *(name for name, value in own.items() if fresh.target.get(name, "") != value)])
    if reach:
        destination = fresh.destination
        DESTINATIONS.update(destination, config={**destination.config, **reach}, user=user)
        fresh.refresh_from_db()
    if changed:
        keep_target_names(fresh, own)
        before, fresh.target = ComputedColumns.parse(fresh.target), own
        fresh.plan_version += 1
        fresh.next_retry_at = None
        fresh.save(update_fields=["target", "plan_version", "next_retry_at"])
        rows.filter(retry_at__isnull=False).update(retry_at=None)
        for table in rows.filter(state=TableState.FAILED.value, error_code=ConfigurationError.code):
            try_again(table)
        read_recomputed(fresh, tables, before, ComputedColumns.parse(own))
        note(
            replicator=fresh,
            kind="target",
            summary=f"Target settings changed: {', '.join(changed)}",
            user=user,
        )
    replicator.refresh_from_db()
    return changed


def start_replicator(*, replicator: Replicator, user: User | None = None) -> Replicator:
    """Also after a failure: its counting begins again."""
    return _want(replicator, Desired.RUNNING, Status.STARTING, "started", "Started", user)


@transaction.atomic
def start_anew(*, replicator: Replicator, user: User | None = None, lost: str = "") -> Replicator:
    """Restart from the end of the source's log and resnapshot every table: for a log that is gone, or another server.

    Copies stay readable; sequence numbers go on.  `lost`: why the log was found to be gone, where no user asked for
    this; the desired state (running, paused, stopped) then stays.
    """
    # Tables before their replicator, as the workers lock them.
    tables = ReplicatorTable.objects.filter(replicator=replicator).order_by("id").select_related("replicator")
    locked = list(tables.select_for_update(no_key=True, of=("self",)))
    fresh = Replicator.objects.select_for_update(no_key=True).get(pk=replicator.pk)
    if fresh.desired == Desired.DELETED:
        message = f"The replicator {fresh.name} is being deleted."
        raise ConfigurationError(message, remedy="Create a new one.")
    read_all_anew(
        locked, reason="the source no longer had the log" if lost else "the replicator was restarted from scratch"
    )
    Replicator.objects.filter(pk=fresh.pk).update(checkpoint_offset=None, identity="", source_ts=None)
    fresh.selection.update(discovered=False)  # tables may have been created meanwhile
    fresh.failures.filter(table=None, resolved_at=None).update(resolved_at=timezone.now())
    fresh.refresh_from_db()
    fresh.desired = fresh.desired if lost else Desired.RUNNING
    fresh.log_concern = ""
    _begin_anew(fresh, Status.STARTING if fresh.desired == Desired.RUNNING else Status(fresh.status))
    summary = "Restarted from scratch: all tables are resnapshotted"
    if lost:
        note(replicator=fresh, kind=STARTED_BY_ITSELF, summary=f"{summary}. {lost}")
    else:
        note(replicator=fresh, kind="started_anew", summary=summary, user=user)
    replicator.refresh_from_db()
    return replicator


def resume_replicator(*, replicator: Replicator, user: User | None = None) -> Replicator:
    """Go on where it was paused."""
    return _want(replicator, Desired.RUNNING, Status.STARTING, "resumed", "Resumed", user)


def pause_replicator(*, replicator: Replicator, user: User | None = None) -> Replicator:
    """Everything stops within seconds (invariant 10) and can be resumed."""
    return _want(replicator, Desired.PAUSED, Status.STOPPING, "paused", "Pause requested", user)


def stop_replicator(*, replicator: Replicator, user: User | None = None) -> Replicator:
    """Everything stops within seconds (invariant 10); progress is kept."""
    return _want(replicator, Desired.STOPPED, Status.STOPPING, "stopped", "Stop requested", user)


@transaction.atomic
def delete_replicator(
    *, replicator: Replicator, drop_target: bool = False, leave_source: bool = False, user: User | None = None
) -> Replicator:
    """The workers remove staged files, the target's tables if `drop_target`, what was made on the source, and then the
    rows.

    `leave_source`: a source that cannot be reached or refuses does not hold the deletion up.
    """
    fresh = Replicator.objects.select_for_update(no_key=True).get(pk=replicator.pk)
    fresh.drop_target_on_delete, fresh.leave_source_on_delete = drop_target, leave_source
    fresh.save(update_fields=["drop_target_on_delete", "leave_source_on_delete"])
    summary = "Deletion requested, with the target's tables" if drop_target else "Deletion requested"
    return _want(replicator, Desired.DELETED, Status.DELETING, "deleted", summary, user)


@transaction.atomic
def _want(
    replicator: Replicator, desired: Desired, status: Status, kind: str, summary: str, user: User | None
) -> Replicator:
    fresh = Replicator.objects.select_for_update(no_key=True).get(pk=replicator.pk)
    if fresh.desired == Desired.DELETED and desired != Desired.DELETED:
        message = f"The replicator {fresh.name} is being deleted."
        raise ConfigurationError(message, remedy="Create a new one.")
    if fresh.desired == desired and fresh.status not in {Status.FAILED, Status.CREATED}:
        replicator.refresh_from_db()
        return replicator
    fresh.desired = desired
    _begin_anew(fresh, status)
    fresh.failures.filter(table=None, resolved_at=None).update(resolved_at=timezone.now())
    note(replicator=fresh, kind=kind, summary=summary, user=user)
    replicator.refresh_from_db()
    return replicator


@transaction.atomic
def retry_replicator(*, replicator: Replicator, user: User | None = None) -> Replicator:
    """Retry now all that waits for its retry time, and every failed table, with reset counts; else change nothing.

    The desired state stays: a paused replicator stays paused, and a failed deletion is tried again.
    """
    # Tables before their replicator, as the workers lock them.
    failed = ReplicatorTable.objects.filter(replicator=replicator).exclude(error_message="").order_by("id")
    tables = list(failed.select_related("replicator").select_for_update(no_key=True, of=("self",)))
    fresh = Replicator.objects.select_for_update(no_key=True).get(pk=replicator.pk)
    failures = fresh.failures.filter(table=None, resolved_at=None)
    whole = fresh.status in {Status.FAILED, Status.RETRYING} or failures.exists()
    if fresh.desired == Desired.DELETED:
        tables = []
    for table in tables:
        try_again(table)
    if whole:
        failures.update(resolved_at=timezone.now())
        fresh.refresh_from_db(fields=["plan_version"])  # tables that are read again have changed it
        _begin_anew(fresh, AFTER_RETRY.get(Desired(fresh.desired), Status(fresh.status)))
    if whole or tables:
        names = [str(table) for table in tables]
        summary = "Retried" + (f" with {len(names)} table{'s' if len(names) > 1 else ''}" if names else "")
        note(replicator=fresh, kind="retried", summary=summary, detail={"tables": names[:100]}, user=user)
    replicator.refresh_from_db()
    return replicator


@transaction.atomic
def go_on(*, endpoint: Connection | Destination, why: str, user: User | None = None) -> None:
    """Start again the replicators and tables that stopped because of this connection or destination, which was put
    right, or so it seems.
    """
    codes = OF_THE_DESTINATION if isinstance(endpoint, Destination) else OF_THE_CONNECTION
    its = endpoint.replicators.exclude(desired=Desired.DELETED)
    # Tables before their replicators, as the workers lock them.
    tables = ReplicatorTable.objects.filter(replicator__in=its, state=TableState.FAILED.value, error_code__in=codes)
    retried: dict[int, list[str]] = {}
    for table in tables.order_by("id").select_related("replicator").select_for_update(no_key=True, of=("self",)):
        try_again(table)
        retried.setdefault(table.replicator_id, []).append(str(table))
    stopped = endpoint.replicators.filter(status=Status.FAILED, desired__in=AFTER_RETRY, error_code__in=codes)
    begun = list(stopped.order_by("id").select_for_update(no_key=True))
    for fresh in begun:
        fresh.failures.filter(table=None, resolved_at=None).update(resolved_at=timezone.now())
        _begin_anew(fresh, AFTER_RETRY[Desired(fresh.desired)])
    for replicator in endpoint.replicators.filter(pk__in={*retried, *(one.pk for one in begun)}):
        detail = {"tables": retried.get(replicator.pk, [])[:100]}
        note(replicator=replicator, kind="retried", summary=f"Resumed automatically: {why}", detail=detail, user=user)


def _begin_anew(fresh: Replicator, status: Status) -> None:
    """Of a locked replicator: its error is forgotten and counting starts at zero."""
    fresh.status = status
    fresh.plan_version += 1
    fresh.attempt = 0
    fresh.first_failure_at = fresh.next_retry_at = None
    fresh.error_code = fresh.error_message = fresh.error_remedy = ""
    fresh.save()


@transaction.atomic
def update_options(*, replicator: Replicator, options: ReplicatorOptions, user: User | None = None) -> Replicator:
    """Takes effect at once: capture and snapshot read their plan again; readers ask for their pace before each
    chunk.
    """
    fresh = Replicator.objects.select_for_update(no_key=True).get(pk=replicator.pk)
    old = fresh.parsed_options.to_dict()
    changed = {name: value for name, value in options.to_dict().items() if old[name] != value}
    if "mode" in changed:
        refuse_options(kind_of(fresh), options)
    if (
        "slo_minutes" in changed
    ):  # one that was stored before this was asked for stays, and counts as the next shorter one
        check_seconds(options.slo_minutes * 60)
    if changed:
        fresh.options = options.to_dict()
        fresh.plan_version += bool(changed.keys() - PACE)  # capture does not depend on the pace
        fresh.save(update_fields=["options", "plan_version"])
        note(
            replicator=fresh,
            kind="options",
            summary=f"Options changed: {', '.join(sorted(changed))}",
            detail={"changes": changes({name: old[name] for name in changed}, changed)},
            user=user,
        )
    replicator.refresh_from_db()
    return replicator


def set_snapshot_paused(*, replicator: Replicator, paused: bool, user: User | None = None) -> Replicator:
    """Readers stop within seconds; the log goes on."""
    options = replace(replicator.parsed_options, snapshot_paused=paused)
    return update_options(replicator=replicator, options=options, user=user)


def save_draft(*, user: User, step: str, data: Mapping[str, Any], name: str = "", draft: Draft | None = None) -> Draft:
    """What the wizard has so far; callers leave secrets out."""
    draft = draft or Draft(user=user)
    draft.step, draft.data, draft.name = step, dict(data), name
    draft.save()
    return draft


def load_draft(*, user: User, draft_id: int | None = None) -> Draft | None:
    """The user's own draft; the newest where no id is given."""
    drafts = Draft.objects.filter(user=user)
    return drafts.filter(pk=draft_id).first() if draft_id is not None else drafts.first()


def discard_draft(*, user: User, draft_id: int) -> None:
    """No error where it is gone already."""
    Draft.objects.filter(user=user, pk=draft_id).delete()


def _check_name(name: str) -> None:
    if not name.strip():
        message = "A replicator needs a name."
        raise ConfigurationError(message)
    if Replicator.objects.filter(name=name.strip()).exists():
        message = f"There is already a replicator named {name.strip()}."
        raise ConfigurationError(message, remedy="Choose another name.")
