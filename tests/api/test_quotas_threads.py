"""A quota over real sockets: a server process, and fifty threads that ask it at once."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from tests.client.server import client_of
from tests.examples.server import PATIENCE, up

from oncue.client import Client, Invalid

CALLERS, QUOTA = 50, 7


def test_of_fifty_threads_as_many_make_a_job_as_there_is_room_for(tmp_path: Path) -> None:
    with up(tmp_path, "--max-jobs-per-user", str(QUOTA), "--max-payload-bytes-per-user", "1000") as server:
        with client_of(server) as root:
            key = root.keys.create("ada", "member").key
            assert key is not None
        together = Barrier(CALLERS)

        def ask(n: int) -> str:
            with Client(server.address, key, timeout=PATIENCE) as client:
                together.wait(PATIENCE)
                try:
                    client.jobs.create(task="hello", schedule="every 1h", payload={"name": str(n)})
                except Invalid as refused:
                    return refused.errors[0].code
                return "made"

        with ThreadPoolExecutor(CALLERS) as threads:
            came_to = Counter(threads.map(ask, range(CALLERS)))

        with Client(server.address, key, timeout=PATIENCE) as client:
            found = list(client.jobs.list(status="active"))

    assert came_to == {"made": QUOTA, "quota_exceeded": CALLERS - QUOTA}
    assert len(found) == QUOTA
