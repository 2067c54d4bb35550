"""SeaweedFS, a real S3 server, on private ports and in a folder of its own."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import obstore
from obstore.store import S3Store

from oncue.settings import Settings

WEED = Path(sys.executable).parent / "weed"
KEY, SECRET = "oncue-test", "not-a-secret"
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
BUCKET = "oncue"
DEADLINE = 60  # seconds


class Seaweed:
    """A server that can be stopped and started again with what it has stored."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = _free_ports(8)
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        rights = {"name": "test", "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": ["Admin"]}
        (folder / "s3.json").write_text(json.dumps({"identities": [rights]}))

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._ports[0]}"

    @property
    def environment(self) -> dict[str, str]:
        return ENVIRONMENT

    def settings(self, **more: object) -> dict[str, object]:
        """The fields of Settings that name it."""
        where = {"storage": f"s3://{BUCKET}/test", "storage_endpoint": self.endpoint, "storage_region": "us-east-1"}
        return {**where, "storage_path_style": True, **more}

    def start(self) -> None:
        s3, s3_grpc, master, master_grpc, volume, volume_grpc, filer, filer_grpc = map(str, self._ports)
        command = [str(WEED), "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={self._folder}", "-filer", "-s3"]
        command += [f"-s3.port={s3}", f"-s3.port.grpc={s3_grpc}", f"-s3.config={self._folder / 's3.json'}"]
        command += ["-s3.port.iceberg=0", "-s3.port.lance=0", f"-s3.localSocket={self._folder / 's3.sock'}"]
        command += [f"-master.port={master}", f"-master.port.grpc={master_grpc}", "-master.telemetry=false"]
        command += [f"-volume.port={volume}", f"-volume.port.grpc={volume_grpc}", "-volume.max=8"]
        command += ["-master.volumeSizeLimitMB=256", "-volume.preStopSeconds=0"]
        command += [f"-filer.port={filer}", f"-filer.port.grpc={filer_grpc}"]
        command += [f"-filer.localSocket={self._folder / 'filer.sock'}"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log, env=os.environ.copy())
        _until(lambda: _put(f"{self.endpoint}/"), self._process)

    def make_bucket(self) -> None:
        """Put something into the bucket: then this server makes it."""
        keys = {"access_key_id": KEY, "secret_access_key": SECRET, "region": "us-east-1", "endpoint": self.endpoint}
        obstore.put(S3Store(BUCKET, **keys, client_options={"allow_http": True}), "first", b"")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(DEADLINE)
            self._process = None


def _until(answers: object, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not answers():  # type: ignore[operator]  # a function without arguments
        assert process.poll() is None, "SeaweedFS has ended; its log is in its folder"
        assert time.monotonic() < deadline, "SeaweedFS does not answer"
        time.sleep(0.1)


def _put(url: str) -> bool:
    """Whether the server answers at all: it refuses a request without a signature when it is ready."""
    try:
        urllib.request.urlopen(url, timeout=2).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def _free_ports(n: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@contextlib.contextmanager
def seaweed(folder: Path) -> Iterator[Seaweed]:
    server = Seaweed(folder)
    server.start()
    try:
        server.make_bucket()
        yield server
    finally:
        server.stop()


def settings_for(server: Seaweed, **more: object) -> Settings:
    return Settings(**server.settings(**more))  # type: ignore[arg-type]  # fields by name
