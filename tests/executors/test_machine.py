"""What a worker offers and what its runs are limited to are one answer: what the machine, or its container, gives."""

from pathlib import Path

import pytest

from oncue.domain.placement import Resources
from oncue.executors import machine
from oncue.executors.limits import limits_for
from oncue.services import worker_process
from oncue.settings import Settings
from oncue.tasks import Tasks

MEGABYTE = 1024 * 1024
UNLIMITED = "9223372036854771712"  # as version 1 says it
WHOLE_MACHINE = machine.memory_mb(Path("/nowhere"))


def tree(root: Path, ours: str, files: dict[str, str]) -> Path:
    """A machine whose control groups look like this."""
    for name, text in {"proc/self/cgroup": ours, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


V2 = "sys/fs/cgroup"
V1 = "sys/fs/cgroup/memory"


@pytest.mark.parametrize(
    ("ours", "files", "expected"),
    [
        ("0::/\n", {f"{V2}/memory.max": f"{64 * MEGABYTE}\n"}, 64),
        ("0::/pod/box\n", {f"{V2}/pod/box/memory.max": "max\n", f"{V2}/pod/memory.max": f"{48 * MEGABYTE}\n"}, 48),
        (
            "0::/pod/box\n",
            {f"{V2}/pod/box/memory.max": f"{32 * MEGABYTE}", f"{V2}/pod/memory.max": f"{48 * MEGABYTE}"},
            32,
        ),
        ("5:cpu,memory:/box\n", {f"{V1}/box/memory.limit_in_bytes": f"{16 * MEGABYTE}\n"}, 16),
        ("5:memory:/box\n4:cpu:/other\n", {f"{V1}/box/memory.limit_in_bytes": UNLIMITED}, WHOLE_MACHINE),
        ("0::/box\n", {f"{V2}/box/memory.max": "max\n"}, WHOLE_MACHINE),
        ("0::/box\n", {}, WHOLE_MACHINE),
    ],
    ids=["a container", "the one around it", "the smaller one", "version 1", "unlimited", "max", "not to be read"],
)
def test_the_least_of_all_groups_around_us_counts(
    tmp_path: Path, ours: str, files: dict[str, str], expected: int
) -> None:
    assert machine.memory_mb(tree(tmp_path, ours, files)) == expected


def test_a_worker_offers_what_its_runs_may_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a worker in a small container that offers all the memory of the machine."""
    small = tree(tmp_path, "0::/\n", {f"{V2}/memory.max": str(64 * MEGABYTE)})
    monkeypatch.setattr(machine.memory_mb, "__defaults__", (small,))

    offer = worker_process._offer(Tasks(), Settings())

    assert offer.resources.memory_mb == 64
    assert limits_for(Settings(), Resources()).memory_mb == 32
    assert offer.resources.cpu_milli == machine.cpu_milli()
    assert worker_process._offer(Tasks(), Settings(worker_memory_mb=500)).resources.memory_mb == 500
