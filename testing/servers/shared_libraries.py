"""Servers, and shared libraries that one wants and the machine lacks: out of Debian's packages into the cache, without
root.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from webapp.embedded.java_artifacts import cache_folder
from webapp.embedded.processes import ServerFailed

# By library: the packages that have it (Debian 13 and Ubuntu 24.04 renamed one).
PACKAGES = {
    "libaio.so.1": ("libaio1t64", "libaio1"),
    "libnuma.so.1": ("libnuma1",),
    "libcrypt.so.1": ("libcrypt1",),
    "libltdl.so.7": ("libltdl7",),
    "liburing.so.2": ("liburing2",),
}


def unpacked(name: str, packages: Sequence[str]) -> Path:
    """The files of these packages, once for all in the cache under this name; ServerFailed where they cannot be had."""
    base = cache_folder() / name
    if not base.exists():
        with tempfile.TemporaryDirectory(dir=cache_folder()) as scratch:
            for package in packages:
                if not _unpack(package, Path(scratch)):
                    message = f"{package} cannot be had: there is no apt here, or it has no such package."
                    raise ServerFailed(message)
            with suppress(OSError):  # another process was faster
                (Path(scratch) / "files").rename(base)
    return base


@cache
def library_path(program: Path) -> str:
    """LD_LIBRARY_PATH for `program`; ServerFailed with what to install where a library cannot be had."""
    folder = cache_folder() / "libraries"
    for library in _missing(program, folder):
        _fetch(library, folder)
    if missing := _missing(program, folder):
        raise ServerFailed(f"{program.name} does not find {', '.join(missing)}: {_advice(missing)}")
    return _path(folder)


@cache
def load(library: str) -> None:
    """Into this process, for a driver that it will load; ServerFailed with what to install where it cannot be had."""
    folder = cache_folder() / "libraries"
    with suppress(OSError):
        ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
        return
    if not (folder / library).exists():
        _fetch(library, folder)
    os.environ["LD_LIBRARY_PATH"] = _path(folder)  # of processes that this one starts
    try:
        ctypes.CDLL(str(folder / library), ctypes.RTLD_GLOBAL)
    except OSError:
        raise ServerFailed(f"{library} is missing: {_advice([library])}") from None


def _path(folder: Path) -> str:
    return os.pathsep.join(part for part in (str(folder), os.environ.get("LD_LIBRARY_PATH")) if part)


def _missing(program: Path, folder: Path) -> list[str]:
    """Names of the libraries that the loader does not find."""
    environment = {**os.environ, "LD_LIBRARY_PATH": _path(folder)}
    listed = subprocess.run(
        ["ldd", str(program)],  # noqa: S607 - the path's
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return [line.split()[0] for line in listed.stdout.splitlines() if line.endswith("not found")]


def _advice(missing: Sequence[str]) -> str:
    packages = " ".join(" or ".join(PACKAGES.get(library, ("its package",))) for library in missing)
    return (
        f"install it (Debian, Ubuntu: apt-get install {packages}; Fedora: dnf install libaio numactl-libs"
        " libxcrypt-compat)."
    )


def _fetch(library: str, folder: Path) -> None:
    """The library's file into `folder`, if apt has one of its packages."""
    folder.mkdir(parents=True, exist_ok=True)
    for package in PACKAGES.get(library, ()):
        with tempfile.TemporaryDirectory(dir=cache_folder()) as scratch:
            found = _from_package(package, library, Path(scratch))
            if found is not None:
                shutil.copy2(found, Path(scratch) / library)
                (Path(scratch) / library).replace(folder / library)  # all at once, for others that start now
                return


def _from_package(package: str, library: str, scratch: Path) -> Path | None:
    """Return the library from a package, or None without apt or without such a package."""
    if not _unpack(package, scratch):
        return None
    return next(iter(sorted(scratch.glob(f"files/**/{library}*"))), None)


def _unpack(package: str, scratch: Path) -> bool:
    """Unpack a package into scratch/files; False without apt or without such a package."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return False
    command = ["apt-get", "download", package]
    if not _runs(command, scratch):  # a slim image has no lists of packages: fetch some of our own
        (scratch / "lists" / "partial").mkdir(parents=True, exist_ok=True)
        own = [f"Dir::State::lists={scratch}/lists", f"Dir::Cache={scratch}/cache", "APT::Sandbox::User="]
        options = [part for option in own for part in ("-o", option)]
        if not (_runs(["apt-get", *options, "update"], scratch) and _runs([*command, *options], scratch)):
            return False
    files = list(scratch.glob(f"{package}_*.deb"))
    return bool(files) and all(_runs(["dpkg", "-x", str(file), f"{scratch}/files"], scratch) for file in files)


def _runs(command: Sequence[str], folder: Path) -> bool:
    return subprocess.run(list(command), cwd=folder, capture_output=True, check=False).returncode == 0
