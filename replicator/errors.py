"""Every error the engine raises, with what the control plane needs to act on it.

TidemarkError
├── ConfigurationError            the user must change something
│   └── SourceMisconfigured       a server setting; the remedy is SQL to paste
├── SourceError
│   ├── SourceUnreachable         retried
│   ├── SourceBusy                waits for something on the source to end; retried
│   ├── SourceAuthenticationFailed
│   ├── SourcePermissionDenied
│   ├── LogPurged                 the source no longer has the log from the checkpoint on
│   ├── SourceReplaced            another server answers at the address, or an older state of it
│   ├── LogUnreadable             the log goes on, but not for Tidemark
│   └── LogCorrupt                checksum or framing does not hold; retried
├── TableError                    stops one table, never the others (invariants 7 and 13)
│   ├── UnsupportedType
│   ├── UnsupportedCharset
│   ├── UnsupportedEngine         the log may not match the table's rows
│   ├── UnsupportedDdl
│   │   └── CopyMustBeRecreated   the target's table cannot be altered; a resnapshot recreates it
│   ├── EventUndecodable          an event of the table in the log is malformed
│   ├── RowImageIncomplete
│   ├── ValueDoesNotFit
│   ├── TooManyDeadLetters        more dead-letter rows than are kept
│   ├── SelectionDoesNotFit       masks, row filter or excluded columns do not fit the table
│   ├── ValuesLost                the table is resnapshotted automatically
│   ├── TargetTableGone           a copy that kept older rows is missing in the target
│   ├── KeyChanged                retried until the log has the DDL; then the table is resnapshotted
│   ├── TableNotRead              the source answered an error for it, which may pass; retried
│   │   └── TableBusy             waits for something on the source to end; retried without limit
│   ├── ConditionRefused          ends only the snapshot that was requested with the condition
│   └── TableDisappeared          retried until the log has the DDL; then the table fails
├── StagingError                  retried
│   ├── StorageFull
│   └── StagedFileLost            a table's changes are lost: only a new copy gets past them
├── StreamError                   a stream's client requested something that it cannot get
│   ├── StreamDisabled
│   ├── CheckpointTooOld          the changes after it are gone
│   ├── MemberGone                sent no heartbeat within its lease: it must join again
│   └── ShardNotHeld              another member holds it
├── StateError                    retried
│   └── FenceLost                 another worker owns the replicator now: stop without reporting a failure
└── TargetError                   retried
    ├── PositionLost              the table can only be made again
    ├── SparkUnavailable
    ├── TargetConflict
    └── TargetUnauthorized        the catalog or the store refuses the credentials
"""

from __future__ import annotations

from typing import ClassVar


class _Text:
    """An attribute whose NUL characters are replaced whenever it is set."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"_{name}"

    def __get__(self, error: TidemarkError, owner: type) -> str:
        found: str = getattr(error, self._name)
        return found

    def __set__(self, error: TidemarkError, text: str) -> None:
        setattr(error, self._name, text.replace("\0", "\ufffd"))


class TidemarkError(Exception):
    """Base of the tree.

    `code` is stable and counted; `retryable` decides retry or stop; `remedy` is one sentence (or SQL) for the user.
    Messages carry no secret (invariant 8), and no NUL character: Postgres stores none in texts.
    column: the column concerned, where one value is at fault, or the table could be replicated without it.
    place: between which offsets of the source's log it lies, as people read them, where capture knows.
    stack: where it was raised in another process (Spark's), for who must know more than the reason.
    """

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False
    message = _Text()
    remedy = _Text()
    default_remedy: ClassVar[str] = "Check the log of this replicator, and report the error if the cause is not clear."

    def __init__(self, message: str, *, remedy: str | None = None, table: str | None = None, column: str = "") -> None:
        """`table` names the table concerned as `database.table`, where there is one."""
        super().__init__(message)
        self.message = message
        self.remedy = remedy or self.default_remedy
        self.table = table
        self.column = column
        self.of_server = False  # True: the server's answer to one statement; another time it may be another
        self.answered = False  # True: the server does answer, and does not take the statement as it is
        self.place: tuple[str, str] | None = None
        self.stack = ""


class ConfigurationError(TidemarkError):
    code = "configuration"
    default_remedy = "Correct the setting and restart the replicator."


class SourceMisconfigured(ConfigurationError):
    code = "source_misconfigured"
    default_remedy = "Run the connection test. It shows the SQL to run on the source."


class SourceError(TidemarkError):
    code = "source"


class SourceUnreachable(SourceError):
    code = "source_unreachable"
    retryable = True
    default_remedy = "Check that the server is running and reachable from this machine at its address and port."


class SourceBusy(SourceError):
    code = "source_busy"
    retryable = True
    default_remedy = "Retried automatically. If it persists, look for an open transaction on the source."


class SourceAuthenticationFailed(SourceError):
    code = "source_authentication"
    default_remedy = "Correct the user and password of the connection."


class SourcePermissionDenied(SourceError):
    code = "source_permission"
    default_remedy = "Run the connection test. It shows the GRANT to run on the source."


class LogPurged(SourceError):
    code = "log_purged"
    default_remedy = (
        "Restart the replicator from scratch (resnapshots all its tables), "
        "and increase the log retention of the source."
    )


class SourceReplaced(SourceError):
    code = "source_replaced"
    default_remedy = (
        "Point the connection back at the original server, or restart the replicator from scratch. All its tables are"
        " then resnapshotted from this server."
    )


class LogUnreadable(SourceError):
    code = "log_unreadable"
    default_remedy = (
        "Restart the replicator from scratch: it resnapshots all its tables and reads the log from its present end."
    )


class LogCorrupt(SourceError):
    code = "log_corrupt"
    retryable = True
    default_remedy = "Retried automatically. If it persists, check the source's log files."


class TableError(TidemarkError):
    code = "table"
    default_remedy = "Fix the cause and resnapshot the table, or remove it from the replicator."


class UnsupportedType(TableError):
    code = "unsupported_type"
    default_remedy = "Exclude the column from the replicator, then resnapshot the table."


class UnsupportedCharset(TableError):
    code = "unsupported_charset"
    default_remedy = "Exclude the column from the replicator, then resnapshot the table."


class UnsupportedEngine(TableError):
    code = "unsupported_engine"
    default_remedy = "Exclude the table from the replicator."


class UnsupportedDdl(TableError):
    code = "unsupported_ddl"
    default_remedy = "Resnapshot the table. The snapshot uses its current schema."


class CopyMustBeRecreated(UnsupportedDdl):
    code = "copy_must_be_recreated"
    default_remedy = "Resnapshot the table: its copy is then made again, with the new column."


class EventUndecodable(TableError):
    code = "event_undecodable"
    default_remedy = "Resnapshot the table. If the error recurs, report it with the log position."


class RowImageIncomplete(TableError):
    code = "row_image_incomplete"
    default_remedy = "Enable full row images in the source's log, and resnapshot the table."


class ValueDoesNotFit(TableError):
    code = "value_does_not_fit"


class TooManyDeadLetters(TableError):
    code = "too_many_dead_letters"
    default_remedy = (
        "Correct the values in the source, or exclude the column from the replicator; then resnapshot the table."
    )


class SelectionDoesNotFit(TableError):
    code = "selection_does_not_fit"
    default_remedy = "Change the columns, masks or row filter of the table. It is then resnapshotted."


class ValuesLost(TableError):
    code = "values_lost"
    default_remedy = "The table is resnapshotted automatically."


class TargetTableGone(TableError):
    code = "target_table_gone"
    default_remedy = (
        "Restore the table in the target if possible, and resnapshot it. Otherwise a resnapshot creates a new table"
        " without the older rows."
    )


class KeyChanged(TableError):
    code = "key_changed"


class TableNotRead(TableError):
    code = "table_not_read"
    retryable = True
    default_remedy = (
        "Retried automatically; the other tables continue. If it persists, run the table's SELECT on the source to see"
        " the error."
    )


class TableBusy(TableNotRead):
    code = "table_busy"
    default_remedy = "The table resumes automatically when the blocking lock or transaction has ended."


class ConditionRefused(TableError):
    code = "condition_refused"
    default_remedy = (
        "Request the snapshot again with a condition or keys that the source accepts. The table continues unchanged."
    )


class TableDisappeared(TableError):
    code = "table_disappeared"
    default_remedy = "The table no longer exists in the source. Remove it from the replicator, or create it again."


class StagingError(TidemarkError):
    code = "staging"
    retryable = True
    default_remedy = "Check that the staging location exists and is writable."


class StorageFull(StagingError):
    code = "storage_full"
    default_remedy = "Free space at the staging location. Tidemark then resumes automatically."


class StagedFileLost(StagingError):
    code = "staged_file_lost"
    default_remedy = "Restore the file, or resnapshot the table: its copy is then made again."


class StreamError(TidemarkError):
    code = "stream"


class StreamDisabled(StreamError):
    code = "stream_disabled"
    default_remedy = "Enable the stream. Clients with an expired checkpoint get the error checkpoint_too_old."


class CheckpointTooOld(StreamError):
    """`oldest`: the checkpoint from which on everything is there."""

    code = "checkpoint_too_old"
    default_remedy = (
        "Start again at `oldest` after a new snapshot of the tables (or with the rows of another copy), and give the"
        " stream a longer retention."
    )

    def __init__(self, message: str, *, oldest: str) -> None:
        super().__init__(message)
        self.oldest = oldest


class MemberGone(StreamError):
    code = "member_gone"
    default_remedy = "Join the group again, and send heartbeats more often than a third of the lease."


class ShardNotHeld(StreamError):
    code = "shard_not_held"
    default_remedy = "Send a heartbeat. Its response lists the shards that this member holds."


class StateError(TidemarkError):
    code = "state"
    retryable = True
    default_remedy = "Check that the metadata database is running and reachable."


class FenceLost(StateError):
    code = "fence_lost"
    retryable = False
    default_remedy = "No action required: another worker has taken over this replicator."


class TargetError(TidemarkError):
    code = "target"
    retryable = True
    default_remedy = "Check that the target is reachable and writable."


class PositionLost(TargetError):
    """No part of the table says any more how far it is."""


class SparkUnavailable(TargetError):
    code = "spark_unavailable"
    default_remedy = "Check Java 17 or later, free memory, and the setting SPARK_MASTER or SPARK_REMOTE."


class TargetUnauthorized(TargetError):
    code = "target_unauthorized"
    default_remedy = (
        "Check the credentials of the destination, and its rights in the catalog and the store. Retried automatically."
    )


class TargetConflict(TargetError):
    code = "target_conflict"
    default_remedy = "Retried automatically. If it persists, look for another writer of the target table."
