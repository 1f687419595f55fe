"""Who may run what.  A lease ends by time; its fence makes a stale owner's commit fail (invariant 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

LEASE_SECONDS = 6.0  # where the installation says nothing else


@dataclass(frozen=True, slots=True)
class Lease:
    """`fence` grows with every acquisition of the same `name`."""

    name: str
    owner: str
    fence: int


class LeaseStore(Protocol):
    """Compare-and-set on the metadata database's clock."""

    def acquire(self, name: str, owner: str, seconds: float | None = None) -> Lease | None:
        """For `seconds` (None: the installation's lease time); None while another owner's lease is live."""
        ...

    def renew(self, lease: Lease, seconds: float | None = None) -> bool:
        """Extend the lease.  False where it has expired or another owner holds it."""
        ...

    def release(self, lease: Lease) -> None: ...
