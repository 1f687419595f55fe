"""Every error the engine raises, with what the control plane needs to act on it.

TidemarkError
├── ConfigurationError            the user must change something
│   └── SourceMisconfigured       a server setting; the remedy is SQL to paste
├── SourceError
│   ├── SourceUnreachable         retried
│   ├── SourceBusy                something on the source has to end first; retried
│   ├── SourceAuthenticationFailed
│   ├── SourcePermissionDenied
│   ├── LogPurged                 the place to continue from is gone
│   ├── SourceReplaced            another server answers at the address
│   └── LogCorrupt                checksum or framing does not hold; retried
├── TableError                    stops one table, never the others (invariants 7 and 13)
│   ├── UnsupportedType
│   ├── UnsupportedCharset
│   ├── UnsupportedEngine         its log and its rows are not always the same
│   ├── UnsupportedDdl
│   ├── EventUndecodable          its event in the log is not what it should be
│   ├── RowImageIncomplete
│   ├── ValueDoesNotFit
│   ├── TooManyParked             more rows that cannot be decoded than are kept
│   ├── SelectionDoesNotFit       a mask is of a column that is not there, or not of its type
│   ├── ValuesLost                the table is read anew by itself
│   ├── TargetTableGone           a copy that kept older rows is missing in the target
│   ├── KeyChanged                the log will tell; waited for
│   ├── TableNotRead              the source answered an error for it, which may pass; retried
│   │   └── TableBusy             something on the source has to end first; retried without end
│   ├── ConditionRefused          ends the snapshot that was asked for with it, and nothing else
│   └── TableDisappeared          the same
├── StagingError                  retried
│   └── StorageFull
├── StreamError                   a stream's client asked for what it cannot have
│   ├── StreamDisabled
│   ├── CheckpointTooOld          what came after it is gone
│   ├── MemberGone                it was not heard of for its lease: to join again
│   └── ShardNotHeld              it is another member's
├── StateError                    retried
│   └── FenceLost                 somebody else owns the replicator now: stop, say nothing
└── TargetError                   retried
    ├── SparkUnavailable
    └── TargetConflict
"""

from __future__ import annotations

from typing import ClassVar


class TidemarkError(Exception):
    """Base of the tree.

    `code` is stable and counted; `retryable` decides retry or stop; `remedy` is one sentence (or SQL) for the user.
    Messages carry no secret (invariant 8).
    column: the column concerned, where one value is at fault.
    place: between which offsets of the source's log it lies, as people read them, where capture knows.
    stack: where it was raised in another process (Spark's), for who must know more than the reason.
    """

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False
    default_remedy: ClassVar[str] = "Look at the log of this replicator; if it does not say enough, report the error."

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
    default_remedy = "Correct the setting and start the replicator again."


class SourceMisconfigured(ConfigurationError):
    code = "source_misconfigured"
    default_remedy = "Run the connection test: it gives the SQL to run on the source."


class SourceError(TidemarkError):
    code = "source"


class SourceUnreachable(SourceError):
    code = "source_unreachable"
    retryable = True
    default_remedy = "Check that the server runs, and that this machine may connect to its address and port."


class SourceBusy(SourceError):
    code = "source_busy"
    retryable = True
    default_remedy = "Retried by itself; if it stays, look for a transaction on the source that was left open."


class SourceAuthenticationFailed(SourceError):
    code = "source_authentication"
    default_remedy = "Correct user and password of the connection."


class SourcePermissionDenied(SourceError):
    code = "source_permission"
    default_remedy = "Run the connection test: it gives the GRANT to run on the source."


class LogPurged(SourceError):
    code = "log_purged"
    default_remedy = (
        "The source no longer has the log to continue from: start the replicator anew (all its tables are read again), "
        "and keep the log for longer."
    )


class SourceReplaced(SourceError):
    code = "source_replaced"
    default_remedy = (
        "Point the connection back at the original server, or start the replicator anew: all its tables are then read "
        "again from this one."
    )


class LogCorrupt(SourceError):
    code = "log_corrupt"
    retryable = True
    default_remedy = "Retried by itself; if it stays, check the source's log files."


class TableError(TidemarkError):
    code = "table"
    default_remedy = "Resnapshot the table once its cause is gone, or remove it from the replicator."


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
    default_remedy = "Resnapshot the table: it is then read anew under its present definition."


class EventUndecodable(TableError):
    code = "event_undecodable"
    default_remedy = "Resnapshot the table; if the same happens again, report the error with the place in the log."


class RowImageIncomplete(TableError):
    code = "row_image_incomplete"
    default_remedy = (
        "SET GLOBAL binlog_row_image = 'FULL'; then reconnect the writing sessions and resnapshot the table."
    )


class ValueDoesNotFit(TableError):
    code = "value_does_not_fit"


class TooManyParked(TableError):
    code = "too_many_parked"
    default_remedy = (
        "Correct the values in the source, or exclude the column from the replicator; then resnapshot the table."
    )


class SelectionDoesNotFit(TableError):
    code = "selection_does_not_fit"
    default_remedy = "Change what is taken of the table; it is then read anew."


class ValuesLost(TableError):
    code = "values_lost"
    default_remedy = "The table is read anew by itself."


class TargetTableGone(TableError):
    code = "target_table_gone"
    default_remedy = "Put the table back in the target if you can, and resnapshot it. Without it, a resnapshot makes it anew: what it kept of older rows is lost then."


class KeyChanged(TableError):
    code = "key_changed"


class TableNotRead(TableError):
    code = "table_not_read"
    retryable = True
    default_remedy = "Retried by itself, while the other tables go on; if it stays, run the table's SELECT on the source to see the error."


class TableBusy(TableNotRead):
    code = "table_busy"
    default_remedy = "Tidemark goes on with the table once the lock or transaction that holds it up has ended."


class ConditionRefused(TableError):
    code = "condition_refused"
    default_remedy = (
        "Ask for the snapshot again, with a condition or keys that the source understands; the table goes on as it was."
    )


class TableDisappeared(TableError):
    code = "table_disappeared"
    default_remedy = "The table is gone from the source: remove it from the replicator, or create it again."


class StagingError(TidemarkError):
    code = "staging"
    retryable = True
    default_remedy = "Check that the staging location exists and can be written."


class StorageFull(StagingError):
    code = "storage_full"
    default_remedy = "Free space at the staging location; Tidemark goes on by itself."


class StreamError(TidemarkError):
    code = "stream"


class StreamDisabled(StreamError):
    code = "stream_disabled"
    default_remedy = "Enable the stream; what was deleted meanwhile, a client with an older checkpoint is told."


class CheckpointTooOld(StreamError):
    """`oldest`: the checkpoint from which on everything is there."""

    code = "checkpoint_too_old"
    default_remedy = (
        "Begin again at `oldest` after a new snapshot of the tables (or with the rows of another copy), and give the stream "
        "a longer retention."
    )

    def __init__(self, message: str, *, oldest: str) -> None:
        super().__init__(message)
        self.oldest = oldest


class MemberGone(StreamError):
    code = "member_gone"
    default_remedy = "Join the group again, and send heartbeats more often than a third of the lease."


class ShardNotHeld(StreamError):
    code = "shard_not_held"
    default_remedy = "Send a heartbeat: its answer has the shards that are this member's now."


class StateError(TidemarkError):
    code = "state"
    retryable = True
    default_remedy = "Check that the metadata database runs and can be reached."


class FenceLost(StateError):
    code = "fence_lost"
    retryable = False
    default_remedy = "Nothing to do: another worker has taken this replicator over."


class TargetError(TidemarkError):
    code = "target"
    retryable = True
    default_remedy = "Check that the target can be reached and written."


class SparkUnavailable(TargetError):
    code = "spark_unavailable"
    default_remedy = "Check Java 17 or later, free memory, and the setting SPARK_MASTER or SPARK_REMOTE."


class TargetConflict(TargetError):
    code = "target_conflict"
    default_remedy = "Retried by itself; if it stays, look for another writer of the target table."
