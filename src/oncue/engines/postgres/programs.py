"""PostgreSQL's own programs, `pg_dump` and `pg_restore`: found, told where to connect, run, and their errors read."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from oncue.domain.errors import OncueError
from oncue.engines.backup import Tell
from oncue.engines.postgres.connecting import Apart

MOST_SAID = 5  # lines of a program's error in ours
LONGEST_LINE = 1 << 24  # bytes: a statement that failed is quoted whole
SHOWN = 300  # characters of a line

# What the driver reads of a URL in addition to server, user and database, and the variables that libpq reads it from.
_VARIABLES: Final = {
    "sslmode": "PGSSLMODE",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcrl": "PGSSLCRL",
    "sslnegotiation": "PGSSLNEGOTIATION",
    "ssl_min_protocol_version": "PGSSLMINPROTOCOLVERSION",
    "ssl_max_protocol_version": "PGSSLMAXPROTOCOLVERSION",
    "krbsrvname": "PGKRBSRVNAME",
    "gsslib": "PGGSSLIB",
    "service": "PGSERVICE",
}
# Known from the connection that is open: which of several servers, and what the environment or a file adds.
_KNOWN: Final = frozenset(
    (
        *("host", "port", "user", "password", "passfile", "dbname", "database"),
        *("target_session_attrs", "sslpassword", "application_name"),
    )
)
_NOT_PASSED_ON: Final = ("PGHOSTADDR", "PGOPTIONS", "PGCLIENTENCODING")  # the driver does not read them either

_HOW_TO_INSTALL = (
    "install the client programs of PostgreSQL {version} or newer on this machine (Debian, Ubuntu: apt install "
    "postgresql-client; Fedora: dnf install postgresql; macOS: brew install libpq)"
)


class ProgramFailed(OncueError):
    """A program ended with an error."""


class Programs:
    """Run against the server, and in the database, of a connection. Passwords are not on the command line."""

    def __init__(self, url: str, connection: Apart, name: str, folder: Path) -> None:
        self._connection = connection
        given: Any = connection
        host, port = _split(given._addr)
        user, self._database = given._params.user, given._params.database
        known = {"host": host, "port": port, "user": user, "dbname": self._database}
        options = dict(parse_qsl(urlsplit(url).query))
        self.target = "--dbname=" + " ".join(f"{word}={_quoted(str(value))}" for word, value in known.items())
        self._env = {name: value for name, value in os.environ.items() if not _is_ours(name)}
        self._env |= {_VARIABLES[name]: value for name, value in options.items() if name in _VARIABLES}
        self._env |= {"PGAPPNAME": name, "PGOPTIONS": _settings(options), "LC_ALL": "C"}
        if given._params.password:
            self._env["PGPASSWORD"] = given._params.password
        if "sslpassword" in options:  # no variable has it
            service = folder / "service"
            service.write_text(f"[oncue]\nsslpassword={options['sslpassword']}\n")
            self._env |= {"PGSERVICEFILE": str(service), "PGSERVICE": "oncue"}

    @property
    def server(self) -> int:
        """Return the major version of the server."""
        return self._connection.get_server_version().major

    async def check(self, name: str, *, newer: bool) -> None:
        """Raise OncueError if there is no such program; `newer`: or if it is older than the server."""
        said = await self.run(name, "--version")
        found = re.search(r"\(PostgreSQL\) (\d+)", said)
        if newer and found and int(found[1]) < self.server:
            raise OncueError(
                f"{name} has version {found[1]}, which cannot read a server of version {self.server}: "
                + _HOW_TO_INSTALL.format(version=self.server)
            )

    async def run(self, name: str, *arguments: str, tell: Tell | None = None) -> str:
        """Return what the program prints. OncueError: it failed. When the caller is cancelled, it is killed."""
        path = shutil.which(name, path=self._env.get("PATH"))
        if path is None:
            raise OncueError(f"there is no {name}: " + _HOW_TO_INSTALL.format(version=self.server))
        process = await asyncio.create_subprocess_exec(
            path,
            *arguments,
            *(["--verbose"] if tell else []),
            env=self._env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LONGEST_LINE,
        )
        assert process.stdout is not None, "they are pipes"
        assert process.stderr is not None, "they are pipes"
        try:
            printed, wrong = await asyncio.gather(
                process.stdout.read(), _errors(name, process.stderr, tell or (lambda _: None))
            )
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if code:
            why = "; ".join(wrong) or (f"it was killed by signal {-code}" if code < 0 else f"exit code {code}")
            raise ProgramFailed(f"{name} failed: {why}")
        return printed.decode(errors="replace")


async def _errors(name: str, stderr: asyncio.StreamReader, tell: Tell) -> Sequence[str]:
    """Return the first errors that the program reports; pass on what else it says."""
    wrong: list[str] = []
    async for line in stderr:
        said = _line(line.decode(errors="replace").removeprefix(f"{name}: "))
        if said.startswith(("error:", "detail:", "hint:", "fatal:")) or (wrong and said.startswith("Command was:")):
            wrong.append(said.removeprefix("error: "))
        else:
            tell(said)
    return wrong[:MOST_SAID]


def _line(text: str) -> str:
    line = " ".join(text.split())
    return "".join(letter for letter in line if letter.isprintable())[:SHOWN]


def _split(address: tuple[str, int] | str) -> tuple[str, int]:
    """Return the host, or the folder of the socket, and the port."""
    if isinstance(address, tuple):
        return address
    folder, _, port = address.rpartition("/.s.PGSQL.")
    return folder, int(port)


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _is_ours(variable: str) -> bool:
    return variable.startswith("ONCUE_") or variable in _NOT_PASSED_ON


def _settings(options: Mapping[str, str]) -> str:
    """Return the settings of the session that the URL names, as libpq takes them."""
    given = {name: value for name, value in options.items() if name not in _KNOWN | _VARIABLES.keys()}
    raw = [given.pop("options")] if "options" in given else []
    return " ".join([*raw, *(f"-c {_escaped(f'{name}={value}')}" for name, value in given.items())])


def _escaped(text: str) -> str:
    return re.sub(r"([\\\s])", r"\\\1", text)
