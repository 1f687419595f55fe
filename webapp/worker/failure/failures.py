"""Counting failures, deciding between a later retry and a stop, and saying so."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Min, Q, QuerySet

from replicator.errors import (
    KeyChanged,
    LogPurged,
    SourceBusy,
    StagedFileLost,
    TableError,
    TargetTableGone,
    TidemarkError,
    ValuesLost,
)
from replicator.model.mode import Mode
from replicator.sources.registry import source_kind
from replicator.state.tables import TableState
from webapp.database import clock, without_nul
from webapp.monitoring.models import Failure, Stage
from webapp.monitoring.services import note
from webapp.replicators.models import Replicator, ReplicatorTable, Status
from webapp.replicators.services import OF_THE_CONNECTION, OF_THE_DESTINATION
from webapp.replicators.services.modes import LOST
from webapp.replicators.services.tables import begin_run, cancel_runs, replan
from webapp.replicators.targets import kind_of
from webapp.worker import signals
from webapp.worker.failure.log_loss_recovery import recovered
from webapp.worker.failure.retry_policy import RetryDecision, decide

CODE, PLACE = 40, 200
READ_ANEW = 10  # times an hour
# What remedies promise while an error is retried.
RETRIES = re.compile(r"(?:Retried automatically|Tidemark (?:then )?resumes automatically)[^.]*\.")


def table_attempt_failed(table: ReplicatorTable, stage: Stage, error: TidemarkError) -> RetryDecision:
    """One more failure in a row of a (locked, fresh) table: a retry time on it, or FAILED.  Saves it."""
    now = clock()
    options = table.replicator.parsed_options
    verdict = decide(
        error,
        options,
        attempt=table.attempt,
        first_failure_at=table.first_failure_at,
        now=now,
        log_time=table.replicator.source_ts,
    )
    table.attempt, table.first_failure_at, table.retry_at = verdict.attempt, verdict.first_failure_at, verdict.retry_at
    if verdict.retry_at is None:
        if isinstance(error, ValuesLost | KeyChanged):
            if _read_anew_lately(table, type(error)) < READ_ANEW:
                _record(table.replicator, table, stage, error, verdict.attempt, now)
                stays = isinstance(error, KeyChanged) and table.load_complete and not table.keyless
                state = TableState.RELOADING if stays else TableState.LOADING
                begin_run(table, state, sequence=None, reason=error.message)
                replan(table.replicator)
                return verdict
            often = f"It was resnapshotted {READ_ANEW} times within an hour."
            error.remedy = f"{often} Resnapshot it once the cause is gone."
        fail_table(table, stage, error, attempt=verdict.attempt)
        return verdict
    _describe(table, error)
    table.save()
    _record(table.replicator, table, stage, error, verdict.attempt, verdict.retry_at)
    return verdict


def _read_anew_lately(table: ReplicatorTable, why: type[TidemarkError]) -> int:
    """How often within the last hour: rows that move between chunks of every load would have it read for ever."""
    given_up = Q(next_retry_at__lte=F("at"))  # others were tried again before
    return Failure.objects.filter(given_up, table=table, code=why.code, at__gte=clock() - timedelta(hours=1)).count()


def fail_table(
    table: ReplicatorTable, stage: Stage, error: TidemarkError, *, attempt: int = 1, tell_capture: bool = True
) -> None:
    """FAILED: not captured, read or applied any more, until a user reads it again.

    Saves it; by option the replicator stops too.

    tell_capture: False where capture itself says so, and need not read its plan again.
    """
    cancel_runs(table)
    _end_retries(error, table.replicator)
    _say_what_resumes_it(error, table.replicator, stage)
    if stage is Stage.APPLY and _is_stuck(error) and kind_of(table.replicator).capabilities.modes:
        table.load_complete = False
        if lost := LOST.get(Mode(table.mode)):
            error.remedy += f" A resnapshot then makes the copy again: {lost} are lost."
    table.state = TableState.FAILED.value
    table.tracked = False
    table.needs_reload = True
    table.retry_at = None
    _describe(table, error)
    table.save()
    _record(table.replicator, table, stage, error, attempt, None)
    note(
        replicator=table.replicator,
        kind="table_failed",
        summary=f"{table} stopped: {error.message}",
        table=str(table),
        detail={"code": error.code, "remedy": error.remedy},
    )
    if table.replicator.parsed_options.on_table_failure == "stop":
        stop_replicator(table.replicator, error, stage)
    if tell_capture:
        replan(table.replicator)


def _is_stuck(error: TidemarkError) -> bool:
    """What cannot be applied stays in the table's journal, before all that a resnapshot brings: only another copy gets
    past it.
    """
    if isinstance(error, TargetTableGone):
        return False
    return isinstance(error, StagedFileLost) or (isinstance(error, TableError) and not error.retryable)


def _end_retries(error: TidemarkError, replicator: Replicator) -> None:
    """Its remedy no longer promises what has ended."""
    ended = (
        f"Retries ended after {replicator.parsed_options.retry_minutes:g} minutes: select Retry once the cause is gone."
    )
    if error.retryable and not error.remedy.endswith(ended):
        error.remedy = f"{RETRIES.sub('', error.remedy).strip()} {ended}".strip()


def _say_what_resumes_it(error: TidemarkError, replicator: Replicator, stage: Stage) -> None:
    """See `webapp.replicators.services.go_on`."""
    destination, connection = replicator.destination, replicator.connection
    if stage is Stage.APPLY and error.code in OF_THE_DESTINATION and destination.testable:
        what = f"the destination {destination.name}"
    elif stage is not Stage.APPLY and error.code in OF_THE_CONNECTION:
        what = f"the connection {connection.name}"
    else:
        return
    resumes = f"It resumes automatically once {what} is changed or its test passes."
    if not error.remedy.endswith(resumes):
        error.remedy = f"{error.remedy} {resumes}".strip()


def stop_replicator(replicator: Replicator, error: TidemarkError, stage: Stage) -> None:
    """FAILED as a whole, with the reason and what to do."""
    _end_retries(error, replicator)
    _say_what_resumes_it(error, replicator, stage)
    Replicator.objects.filter(pk=replicator.pk).update(
        status=Status.FAILED,
        error_code=error.code[:CODE],
        error_message=error.message,
        error_remedy=error.remedy,
        next_retry_at=None,
    )
    note(
        replicator=replicator,
        kind="failed",
        summary=f"Stopped: {error.message}",
        detail={"code": error.code, "remedy": error.remedy},
    )
    replan(replicator)


@transaction.atomic
def stage_failed(replicator_id: int, stage: Stage, error: TidemarkError) -> RetryDecision | None:
    """Count the failure of a whole stage of a replicator: its unresolved failures are the attempts so far.

    None where the replicator is gone, or has been restarted because its log is gone.  Each stage counts separately, so
    that one which works does not hide one which does not.
    """
    if stage is Stage.CAPTURE and isinstance(error, LogPurged) and recovered(replicator_id, error):
        return None
    replicator = Replicator.objects.select_for_update(no_key=True).filter(pk=replicator_id).first()
    if replicator is None:
        return None
    now = clock()
    open_ones = _open(replicator_id, stage).exclude(code=SourceBusy.code)  # waiting for others does not count
    verdict = decide(
        error,
        replicator.parsed_options,
        attempt=open_ones.count(),
        first_failure_at=open_ones.aggregate(first=Min("at"))["first"],
        now=now,
    )
    _record(replicator, None, stage, error, verdict.attempt, verdict.retry_at)
    if verdict.retry_at is None:
        Replicator.objects.filter(pk=replicator_id).update(attempt=verdict.attempt)
        stop_replicator(replicator, error, stage)
        return verdict
    _retrying(replicator_id, error, verdict)
    return verdict


@transaction.atomic
def stage_waits(replicator_id: int, stage: Stage, error: TidemarkError) -> None:
    """It waits for what others do on the source, for however long: one failure that is open as long, with what is
    waited for now.
    """
    replicator = Replicator.objects.select_for_update(no_key=True).filter(pk=replicator_id).first()
    if replicator is None:
        return
    verdict = RetryDecision(0, clock(), None)
    waiting = _open(replicator_id, stage).filter(code=error.code)
    if not waiting.update(message=error.message, remedy=error.remedy):
        _record(replicator, None, stage, error, verdict.attempt, verdict.retry_at)
    _retrying(replicator_id, error, verdict)


def _retrying(replicator_id: int, error: TidemarkError, verdict: RetryDecision) -> None:
    Replicator.objects.filter(pk=replicator_id, status__in=_RETRYABLE_STATUS).update(
        status=Status.RETRYING,
        attempt=verdict.attempt,
        first_failure_at=verdict.first_failure_at,
        next_retry_at=verdict.retry_at,
        error_code=error.code[:CODE],
        error_message=error.message,
        error_remedy=error.remedy,
    )


_RETRYABLE_STATUS = (Status.STARTING, Status.RUNNING, Status.RETRYING)


def clear_stage_failure(replicator_id: int, stage: Stage) -> None:
    """The stage got somewhere: its count begins again; the replicator runs if no other stage fails."""
    resolved = _open(replicator_id, stage).update(resolved_at=clock())
    others = Failure.objects.filter(replicator_id=replicator_id, table=None, resolved_at=None).exists()
    rows = Replicator.objects.filter(pk=replicator_id, status=Status.RETRYING)
    if resolved and not others and rows.update(
        status=Status.RUNNING, attempt=0, first_failure_at=None, next_retry_at=None,
        error_code="", error_message="", error_remedy="",
    ):  # fmt: skip
        note(
            replicator=Replicator.objects.get(pk=replicator_id),
            kind="recovered",
            summary=f"{stage} recovered after {resolved} failed attempt{'s' if resolved > 1 else ''}",
        )


def retry_ahead(replicator_id: int, stage: Stage, now: datetime) -> bool:
    """The stage is to wait still."""
    newest = _open(replicator_id, stage).order_by("-id").first()
    return newest is not None and newest.next_retry_at is not None and newest.next_retry_at > now


def retries_ahead(now: datetime, replicator_id: int | None = None) -> set[tuple[int, str]]:
    """(replicator, stage) of the stages that are to wait still, of one replicator or of all."""
    found = Failure.objects.filter(table=None, resolved_at=None)
    if replicator_id is not None:
        found = found.filter(replicator_id=replicator_id)
    newest = found.order_by("replicator_id", "stage", "-id").distinct("replicator_id", "stage")
    rows = newest.values_list("replicator_id", "stage", "next_retry_at")
    return {(replicator, stage) for replicator, stage, until in rows if until is not None and until > now}


def _open(replicator_id: int, stage: Stage) -> QuerySet[Failure]:
    return Failure.objects.filter(replicator_id=replicator_id, table=None, stage=stage, resolved_at=None)


def _describe(table: ReplicatorTable, error: TidemarkError) -> None:
    table.error_code = error.code[:CODE]
    table.error_message = error.message
    table.error_remedy = error.remedy


def _read_up_to(replicator: Replicator) -> str:
    """Capture began to read there; empty where it never did."""
    if not replicator.checkpoint_offset:
        return ""
    try:
        return str(source_kind(replicator.connection.kind).parse_offset(replicator.checkpoint_offset))
    except TidemarkError:  # of another version: not worth a second failure
        return ""


def _record(
    replicator: Replicator,
    table: ReplicatorTable | None,
    stage: Stage,
    error: TidemarkError,
    attempt: int,
    retry_at: datetime | None,
) -> None:
    after, until = error.place or (_read_up_to(replicator) if stage is Stage.CAPTURE and table is None else "", "")
    Failure.objects.create(
        replicator=replicator,
        table=table,
        offset_after=without_nul(after)[:PLACE],
        offset_until=without_nul(until)[:PLACE],
        stage=stage,
        code=error.code[:CODE],
        message=error.message,
        remedy=error.remedy,
        attempt=attempt,
        first_sequence=table.applied + 1 if table else None,
        last_sequence=table.last_sequence if table else None,
        next_retry_at=retry_at,
    )
    signals.failed.send(
        Failure, replicator_id=replicator.pk, stage=stage, code=error.code[:CODE], retried=retry_at is not None
    )
