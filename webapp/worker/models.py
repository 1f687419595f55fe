"""Who runs what."""

from __future__ import annotations

from django.db import models


class Lease(models.Model):
    """`fence` grows with every acquisition; `expires_at` is by the database's clock, 1970 where the lease was given
    back.
    """

    name = models.CharField(max_length=100, primary_key=True)
    owner = models.CharField(max_length=100)
    fence = models.BigIntegerField(default=0)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} #{self.fence} {self.owner}"


class Dispatch(models.Model):
    """A task of this name was put into a queue and may start until `until`; before that it is not put in again."""

    name = models.CharField(max_length=100, primary_key=True)
    until = models.DateTimeField()

    def __str__(self) -> str:
        return self.name


class WorkerHeartbeat(models.Model):
    """The last sign of life of a worker process or of beat."""

    name = models.CharField(max_length=150, primary_key=True)
    role = models.CharField(max_length=20)
    seen_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name
