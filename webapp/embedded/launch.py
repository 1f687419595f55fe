"""Prepare a child process, as a program between it and its parent, before its command runs.

`preexec_fn` would run in a fork of the parent, with the locks that its other threads held at that moment: it deadlocks
now and then.
Usage: python -I -S launch.py PARENT FAREWELL USER COMMAND…; USER may be empty.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def launch(parent: int, farewell: int, user: str, command: list[str]) -> None:
    """Become `command`, as `user`; the kernel sends it `farewell` when the parent's thread ends (Linux)."""
    if user:
        import pwd

        entry = pwd.getpwnam(user)
        os.setgroups([])
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
    libc = ctypes.CDLL(None)
    if hasattr(libc, "prctl"):
        libc.prctl(PR_SET_PDEATHSIG, farewell)
    if os.getppid() != parent:
        sys.exit(1)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"{command[0]} cannot be executed: {error.strerror}")


if __name__ == "__main__":
    launch(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:])
