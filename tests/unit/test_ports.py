"""Ports of servers that are started again: neither clients nor other processes get them meanwhile."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from webapp.embedded.ports import free_port, is_free

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
CODE = "from webapp.embedded.ports import _reserved; import sys; print(_reserved(int(sys.argv[1])))"


def test_ports_are_free_different_and_not_those_of_clients() -> None:
    ports = [free_port() for _ in range(200)]
    assert len(set(ports)) == 200
    assert all(is_free(port) for port in ports)
    assert max(ports) < int(RANGE.read_text().split()[0])


def test_another_process_does_not_get_a_port_that_this_one_has() -> None:
    ran = [
        subprocess.run([sys.executable, "-c", CODE, str(port)], capture_output=True, text=True, check=True).stdout
        for port in (free_port(), 1)
    ]
    assert ran == ["False\n", "True\n"]
