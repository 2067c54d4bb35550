"""Wall clocks that differ from process to process: what `clock_shift.c` needs to be preloaded."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("clock_shift.c")


class NoCompiler(Exception):
    """There is nothing here to compile C with."""


class WallClocks:
    """A file for each process, which says by how many seconds its wall clock differs from the machine's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "clocks"
        self._folder.mkdir()
        self._library = self._folder / "clock_shift.so"
        compiler = shutil.which("gcc") or shutil.which("cc")
        if compiler is None:
            raise NoCompiler("there is no gcc: apt-get install gcc")
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", self._library, SOURCE, "-ldl"], check=True)

    def environment(self, place: str) -> dict[str, str]:
        self.set(place, 0.0)
        return {"LD_PRELOAD": str(self._library), "CLOCK_SHIFT_FILE": str(self._folder / place)}

    def set(self, place: str, seconds: float) -> None:
        """In one write, which whoever has mapped the file sees at once."""
        with (self._folder / place).open("r+b" if (self._folder / place).exists() else "w+b") as file:
            file.write(struct.pack("=q", round(seconds * 1e9)))
