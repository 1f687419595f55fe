"""Free ports on the loopback address."""

from __future__ import annotations

import random
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

LOOPBACK = "127.0.0.1"
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_PORTS, _LOWEST = 12_000, 10_240


def free_port() -> int:
    """A port that nothing listens on, and that no other process of Tidemark is given while this one lives.

    It lies below those that the system gives to clients: one of them would have it while a server that is started again
    is not listening yet.
    """
    first_of_clients = 32_768
    with suppress(OSError, ValueError):
        first_of_clients = int(_RANGE.read_text().split()[0])
    ports = range(max(_LOWEST, first_of_clients - _PORTS), max(first_of_clients, _LOWEST + _PORTS))
    while True:
        port = random.SystemRandom().choice(ports)
        if is_free(port) and _reserved(port):
            return port


def _reserved(port: int) -> bool:
    """Reserve the port until this process ends; False where another process has reserved it."""
    if sys.platform != "linux":  # only Linux has abstract socket names
        return True
    guard = socket.socket(socket.AF_UNIX)
    try:
        guard.bind(f"\0tidemark port {port}")
    except OSError:
        guard.close()
        return False
    guard.detach()
    return True


def is_free(port: int) -> bool:
    """True where a server could bind `port` on loopback now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def wait_until_free(port: int, seconds: float) -> bool:
    """True as soon as `port` can be bound: a server of a killed run may need a moment to go."""
    deadline = time.monotonic() + seconds
    while not is_free(port):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def wait_for_port(port: int, seconds: float) -> bool:
    """True as soon as something accepts connections on loopback."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            with socket.create_connection((LOOPBACK, port), timeout=1):
                return True
        except OSError:
            time.sleep(0.05)
    return False
