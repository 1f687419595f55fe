"""What a click does to a replicator or one of its tables.  Everything is done by services."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_POST

from replicator.errors import ConfigurationError
from webapp.replicators import selectors, services
from webapp.replicators.models import Replicator, ReplicatorTable
from webapp.web.responses import done, user_of


def _start(replicator: Replicator, user: User) -> str:
    services.start_replicator(replicator=replicator, user=user)
    return f"{replicator.name} is starting."


def _start_anew(replicator: Replicator, user: User) -> str:
    services.start_anew(replicator=replicator, user=user)
    return f"{replicator.name} restarts from scratch: all its tables are resnapshotted."


def _pause(replicator: Replicator, user: User) -> str:
    services.pause_replicator(replicator=replicator, user=user)
    return f"{replicator.name} is pausing; it stops within seconds."


def _resume(replicator: Replicator, user: User) -> str:
    services.resume_replicator(replicator=replicator, user=user)
    return f"{replicator.name} is resuming."


def _stop(replicator: Replicator, user: User) -> str:
    services.stop_replicator(replicator=replicator, user=user)
    return f"{replicator.name} is stopping; its progress is kept."


def _retry(replicator: Replicator, user: User) -> str:
    services.retry_replicator(replicator=replicator, user=user)
    return f"{replicator.name} is retrying now."


def _pause_snapshots(replicator: Replicator, user: User) -> str:
    services.set_snapshot_paused(replicator=replicator, paused=True, user=user)
    return "Snapshots paused; changes are still streamed."


def _resume_snapshots(replicator: Replicator, user: User) -> str:
    services.set_snapshot_paused(replicator=replicator, paused=False, user=user)
    return "Snapshots resumed."


ACTIONS: dict[str, Callable[[Replicator, User], str]] = {
    "start": _start,
    "start-anew": _start_anew,
    "pause": _pause,
    "resume": _resume,
    "stop": _stop,
    "retry": _retry,
    "pause-snapshots": _pause_snapshots,
    "resume-snapshots": _resume_snapshots,
}


@login_required
@require_POST
def act(request: HttpRequest, pk: int, action: str) -> HttpResponse:
    """Start, pause, resume, stop, retry, delete."""
    replicator = get_object_or_404(selectors.list_replicators(), pk=pk)
    page = reverse("replicators:overview", args=[pk])
    try:
        if action == "delete":
            return _delete(request, replicator, page)
        if action not in ACTIONS:
            raise Http404
        return done(request, ACTIONS[action](replicator, user_of(request)), to=page)
    except ConfigurationError as error:
        return done(request, f"{error.message} {error.remedy}", level="error", to=page)


def _delete(request: HttpRequest, replicator: Replicator, page: str) -> HttpResponse:
    if request.POST.get("confirm", "").strip() != replicator.name:
        return done(request, f"Nothing was deleted: the name typed is not {replicator.name}.", level="error", to=page)
    drop = request.POST.get("drop_target") == "yes"
    leave = request.POST.get("leave_source") == "yes"
    services.delete_replicator(replicator=replicator, drop_target=drop, leave_source=leave, user=user_of(request))
    with_tables = " with its tables in the target" if drop else ""
    return done(request, f"{replicator.name} is being deleted{with_tables}.", to=reverse("replicators:fleet"))


def _retry_table(table: ReplicatorTable, user: User) -> str:
    services.retry_table(table=table, user=user)
    return f"{table} is retrying now."


def _resnapshot(table: ReplicatorTable, user: User) -> str:
    services.resnapshot_table(table=table, user=user)
    return f"{table} is resnapshotted; its changes are still streamed."


def _skip(table: ReplicatorTable, user: User) -> str:
    services.skip_table(table=table, user=user)
    return f"{table} is skipped; the other tables continue."


def _resume_table(table: ReplicatorTable, user: User) -> str:
    services.resume_table(table=table, user=user)
    return f"{table} is resumed and resnapshotted."


def _cancel(table: ReplicatorTable, user: User) -> str:
    services.cancel_snapshot(table=table, user=user)
    return f"Snapshot of {table} cancelled."


def _stop_snapshot(table: ReplicatorTable, user: User) -> str:
    number = services.stop_snapshots(table=table, user=user)
    return f"Snapshot of {table} stopped." if number else f"No running snapshot of {table}."


def _pause_snapshot(table: ReplicatorTable, user: User) -> str:
    number = services.set_paused(table=table, paused=True, user=user)
    return f"Snapshot of {table} paused." if number else f"No running snapshot of {table}."


def _resume_snapshot(table: ReplicatorTable, user: User) -> str:
    number = services.set_paused(table=table, paused=False, user=user)
    return f"Snapshot of {table} resumed." if number else f"No paused snapshot of {table}."


def _remove(table: ReplicatorTable, user: User) -> str:
    services.remove_table(replicator=table.replicator, table=table.table_id, user=user)
    return f"{table} is no longer replicated; the target table is kept."


TABLE_ACTIONS: dict[str, Callable[[ReplicatorTable, User], str]] = {
    "retry": _retry_table,
    "resnapshot": _resnapshot,
    "skip": _skip,
    "resume": _resume_table,
    "cancel": _cancel,
    "stop-snapshot": _stop_snapshot,
    "pause-snapshot": _pause_snapshot,
    "resume-snapshot": _resume_snapshot,
    "remove": _remove,
}


@login_required
@require_POST
def rename_target(request: HttpRequest, pk: int, table: int) -> HttpResponse:
    """From the dialog of the tables page."""
    row = get_object_or_404(ReplicatorTable.objects.select_related("replicator"), pk=table, replicator=pk)
    page, given = reverse("replicators:tables", args=[pk]), request.POST
    try:
        services.rename_target(
            table=row, namespace=given.get("namespace", ""), name=given.get("name", ""), user=user_of(request)
        )
    except ConfigurationError as error:
        return done(request, f"{error.message} {error.remedy}", level="error", to=page)
    return done(
        request,
        f"The target table of {row} is renamed to {row.own_namespace}.{row.own_name} at the next merge.",
        to=page,
    )


@login_required
@require_POST
def change_mode(request: HttpRequest, pk: int, table: int) -> HttpResponse:
    """From the dialog of the tables page, which says what it means."""
    row = get_object_or_404(ReplicatorTable.objects.select_related("replicator"), pk=table, replicator=pk)
    page = reverse("replicators:tables", args=[pk])
    try:
        services.change_mode(table=row, mode=request.POST.get("mode", ""), confirmed=True, user=user_of(request))
    except ConfigurationError as error:
        return done(request, f"{error.message} {error.remedy}", level="error", to=page)
    return done(request, f"The write mode of {row} is {row.get_mode_display()}.", to=page)


@login_required
@require_POST
def act_on_table(request: HttpRequest, pk: int, table: int, action: str) -> HttpResponse:
    """Retry, resnapshot, skip, resume, remove; cancel, stop, pause, resume the snapshot."""
    row = get_object_or_404(ReplicatorTable.objects.select_related("replicator"), pk=table, replicator=pk)
    page = reverse("replicators:tables", args=[pk])
    if action not in TABLE_ACTIONS:
        raise Http404
    try:
        return done(request, TABLE_ACTIONS[action](row, user_of(request)), to=page)
    except ConfigurationError as error:
        return done(request, f"{error.message} {error.remedy}", level="error", to=page)
