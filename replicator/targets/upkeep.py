"""What the upkeep of every kind of lake does alike."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from replicator.errors import ConfigurationError, TargetError
from replicator.model.retention import STEPS, Retention
from replicator.targets.base import TargetTable

LOGGER = logging.getLogger("tidemark.upkeep")
RETENTION_STEPS = "tidemark.retention-steps"  # as `Retention.parse` takes it
GRACE_HOURS = "tidemark.deletion-grace-hours"


def own_retention(table: TargetTable, properties: Mapping[str, str], default: Retention) -> Retention:
    """The table's, by its properties (`ALTER TABLE … SET TBLPROPERTIES`); what they do not say is the default's.

    Raises ConfigurationError.
    """
    steps, hours = properties.get(RETENTION_STEPS), properties.get(GRACE_HOURS)
    try:
        own = Retention.parse(steps or STEPS, float(hours or 0))
    except (ConfigurationError, ValueError) as error:
        message = f"{table}: its properties {RETENTION_STEPS} and {GRACE_HOURS} are invalid: {error}"
        raise ConfigurationError(message, table=str(table)) from None
    return Retention(own.steps if steps else default.steps, own.grace if hours else default.grace)


def delete_each(dropped: Iterable[str], delete: Callable[[str], bool]) -> int:
    """Delete dropped tables; returns the number of those that `delete` has deleted.

    One that cannot be deleted, as its files are in a store of before, stays, and keeps no other from it.  Raises
    TargetError where none can.
    """
    deleted, failure = 0, None
    for name in dropped:
        try:
            deleted += delete(name)
        except TargetError as error:
            failure = error
            LOGGER.warning("The dropped table %s stays for now: %s", name, error.message)
    if failure and not deleted:
        raise failure
    return deleted
