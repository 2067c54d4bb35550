"""Programs that are not ours: where they are, and what a test does without them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from oncue.testing.postgres import PrivatePostgres

ROOT = Path(__file__).parents[2]
OPS = ROOT / "ops"
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", ""), "/usr/sbin"])

# .ci/run installs these from Debian; whatever `pip install 'oncue[ops]'` brings is always there.
DEBIAN = {"prometheus": "prometheus", "promtool": "prometheus", "nginx": "nginx-light"}
# These come with the machine or not at all.
OPTIONAL = {"kubectl": "kubectl", "systemd-analyze": "systemd"}


def program(name: str, path: str = PATH) -> str:
    """Where it is. Without it a test is skipped; `.ci/run` names the programs that it could not install."""
    found = shutil.which(name, path=path)
    if found is None:
        package = (DEBIAN | OPTIONAL).get(name)
        missing = f"there is no {name}: " + (f"apt-get install {package}" if package else "make .venv/ops.stamp")
        pytest.skip(missing)
    return found


def beside(server: PrivatePostgres) -> str:
    """The path with this server's own programs first: pg_dump refuses a server that is newer than itself."""
    found = re.search(r": (/.+)\)", server.kind)
    return f"{found[1]}{os.pathsep}{PATH}" if found else PATH


def run(name: str, *arguments: str | Path, path: str = PATH, env: dict[str, str] | None = None) -> str:
    """What it printed. Anything but success fails the test."""
    command = [program(name, path), *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PATH": path, **(env or {})}, capture_output=True)
    said = (done.stdout + done.stderr).decode(errors="replace")
    assert done.returncode == 0, said
    return said
