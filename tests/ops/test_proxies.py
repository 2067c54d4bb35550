"""nginx and Caddy in front of a real API, as ops/ configures them: events arrive at once, large batches pass."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path
from urllib.error import HTTPError

import pytest
from tests.ops.programs import OPS, PATH, program, run
from tests.processes.fleet import Fleet, free_port, until

pytestmark = pytest.mark.ops

TRUSTING = ssl._create_unverified_context()  # the certificate is the test's own
SOON = 10.0  # seconds: an event that a proxy keeps back comes with the next heartbeat, 15 s later


@contextmanager
def nginx(upstream: int, port: int, folder: Path) -> Iterator[None]:
    certificate, key = folder / "oncue.pem", folder / "oncue.key"
    run(
        "openssl",
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"),
        *("-keyout", key, "-out", certificate),
    )
    text = (OPS / "nginx.conf").read_text()
    for ours, theirs in {
        "/etc/ssl/certs/oncue.pem": str(certificate),
        "/etc/ssl/private/oncue.key": str(key),
        "127.0.0.1:8470": f"127.0.0.1:{upstream}",
        "listen 443": f"listen 127.0.0.1:{port}",
        "listen 80": f"listen 127.0.0.1:{free_port()}",
    }.items():
        assert ours in text
        text = text.replace(ours, theirs)
    (folder / "nginx.conf").write_text(f"pid {folder}/pid;\ndaemon off;\n{text}")
    told = ["-p", folder, "-c", folder / "nginx.conf", "-e", folder / "errors"]
    run("nginx", "-t", *told)
    with started("nginx", *told):
        yield


@contextmanager
def caddy(upstream: int, port: int, folder: Path) -> Iterator[None]:
    text = (OPS / "Caddyfile").read_text()
    run("caddy", "validate", "--adapter", "caddyfile", "--config", OPS / "Caddyfile", env=home(folder))
    assert run("caddy", "fmt", OPS / "Caddyfile") == text
    text = text.replace("127.0.0.1:8470", f"127.0.0.1:{upstream}")
    text = text.replace("jobs.example.org {", f"https://localhost:{port} {{\n\ttls internal")
    options = "{\n\tadmin off\n\tskip_install_trust\n\tauto_https disable_redirects\n}\n"
    (folder / "Caddyfile").write_text(options + text)
    with started("caddy", "run", "--config", folder / "Caddyfile", env=home(folder)):
        yield


def home(folder: Path) -> dict[str, str]:
    return {name: str(folder) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}


@contextmanager
def started(name: str, *arguments: object, env: dict[str, str] | None = None) -> Iterator[None]:
    with subprocess.Popen(
        [program(name), *map(str, arguments)],
        env={**os.environ, "PATH": PATH, **(env or {})},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield
        finally:
            process.terminate()


@pytest.fixture(params=["nginx", "caddy"])
def behind_a_proxy(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Fleet, str]]:
    """A fleet, and the address of the proxy in front of it."""
    program(request.param)
    tmp_path.chmod(0o755)  # nginx's workers are nobody
    port, fleet = free_port(), Fleet(tmp_path)
    proxy = {"nginx": nginx, "caddy": caddy}[request.param]
    try:
        fleet.start("up")
        with proxy(fleet.port, port, tmp_path):
            fleet.ready(workers=1)
            address = f"https://localhost:{port}"
            until(lambda: status(address + "/healthz") == 200, "the proxy answers", fleet.tell)
            yield fleet, address
    finally:
        fleet.close()


def asked(fleet: Fleet, url: str, body: object = None) -> HTTPResponse:
    headers = {"Authorization": f"Bearer {fleet.key}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), headers)
    answer: HTTPResponse = urllib.request.urlopen(request, context=TRUSTING, timeout=60)
    return answer


def status(url: str) -> int:
    try:
        return urllib.request.urlopen(url, context=TRUSTING, timeout=10).status  # type: ignore[no-any-return]
    except HTTPError as refused:
        return refused.code
    except OSError:
        return 0


def test_an_api_behind_a_proxy(behind_a_proxy: tuple[Fleet, str]) -> None:
    fleet, address = behind_a_proxy

    with asked(fleet, f"{address}/v1/events") as events:
        assert events.readline().startswith(b"id: "), "the stream is open"
        began = time.monotonic()
        job = fleet.create("mark")
        while job.encode() not in events.readline():
            pass
        assert time.monotonic() - began < SOON, "the event was kept back"

    jobs = [{"task": "mark", "payload": {}, "name": "x" * 200, "queue": "for later"}] * 10_000
    with asked(fleet, f"{address}/v1/jobs/batch", {"jobs": jobs}) as created:
        assert len(json.load(created)["job_ids"]) == 10_000

    assert [status(f"{address}/metrics"), status(f"{address}/metrics/cluster")] == [404, 404]
