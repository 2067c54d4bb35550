"""What users read when a file cannot be used: what is wrong, in plain words, and no names of the driver's."""

from pathlib import Path

import apsw
import pytest

from oncue.engines.sqlite.store import unavailable

SAYS: list[tuple[Exception, str]] = [
    (apsw.BusyError("database is locked"), "another program has locked the file"),
    (apsw.FullError("database or disk is full"), "the disk is full"),
    (apsw.ReadOnlyError("attempt to write a readonly database"), "the file is not writable"),
    (apsw.InterruptError("interrupted"), "no answer in time"),
    (apsw.NotADBError("file is not a database"), "not a SQLite database"),
    (OSError(28, "No space left on device", "x"), "No space left on device"),
    (apsw.NoMemError("out of\n memory"), "SQLite says: out of memory"),
]


@pytest.mark.parametrize(("away", "words"), SAYS, ids=[type(away).__name__ for away, _ in SAYS])
def test_the_reason_is_in_plain_words(away: Exception, words: str) -> None:
    said = str(unavailable(Path("oncue.db"), away))

    assert words in said
    assert type(away).__name__ not in said
