"""Which failures are the same, and how they are counted."""

import time

import pytest

from oncue.domain.error_groups import MOST_GROUPS, ErrorGroup, Failures, folded
from oncue.domain.fingerprint import OTHER, fault, normalised, read_fingerprint, show_fingerprint, top_frame
from oncue.domain.ids import UserNumber
from oncue.domain.instants import HOUR, Instant

ADA = UserNumber(1)

ALIKE = [
    ("user 17 not found", "user 2048 not found"),
    ("no file '/tmp/a b.csv'", "no file '/srv/other.csv'"),
    ("cannot read /var/lib/x/1.txt", "cannot read /srv/data.bin"),
    ("run 0190c2a5-7c00-7000-8000-000000000000 failed", "run 0190c2a5-7c00-7000-8000-00000000abcd failed"),
    ("object at 0x7f3a11", "object at 0x1"),
    ("commit deadbeef01 missing", "commit 0123456789abcdef missing"),
    ("GET https://a.example/x?y=1 failed", "GET http://b.example/ failed"),
    ("mail to ada@example.org bounced", "mail to bob.b@mail.example.com bounced"),
    ("took 1.5 s,  limit 1", "took 30 s, limit 2"),
    ('key "a" is missing', 'key "b" is missing'),
]
APART = [("connection refused", "connection reset"), ("no such table", "no such column"), ("a", "")]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_what_varies_does_not_count(one: str, other: str) -> None:
    assert fault("t", "E", one).fingerprint == fault("t", "E", other).fingerprint
    assert fault("t", "E", one).sample == one


@pytest.mark.parametrize(("one", "other"), APART)
def test_what_is_said_otherwise_is_another_error(one: str, other: str) -> None:
    assert fault("t", "E", one).fingerprint != fault("t", "E", other).fingerprint


def test_task_type_and_place_tell_errors_apart() -> None:
    found = [fault("t", "E", "a"), fault("u", "E", "a"), fault("t", "F", "a"), fault("t", "E", "a", "x.py:f")]

    assert len({one.fingerprint for one in found}) == 4


@pytest.mark.parametrize(
    "text", ["'" * 4_000, "/a" * 2_000, "a@" * 2_000, "1,2:" * 1_000, "abcdef0 " * 500, "\ud800" * 9]
)
def test_whatever_a_task_raises_takes_little_time(text: str) -> None:
    before = time.process_time()
    fault("t", "E", text)
    normalised(text)
    assert time.process_time() - before < 0.1


def test_a_fingerprint_is_shown_and_read() -> None:
    for number in (1, -1, 2**63 - 1, -(2**63), fault("t", "E", "a").fingerprint):
        assert read_fingerprint(show_fingerprint(number)) == number
    for text in ("", "0" * 16, "0" * 15, "g" * 16, "A" * 16, "1" * 17, "１" * 16):
        assert read_fingerprint(text) is None


def test_the_place_is_the_last_frame_whatever_its_line() -> None:
    trace = 'Traceback (most recent call last):\n  File "/a/b/tasks.py", line {}, in send\n    x()\n' + (
        '  File "C:\\lib\\deep.py", line 7, in inner\n    raise E\nE: no\n'
    )

    assert top_frame(trace.format(3)) == top_frame(trace.format(4)) == "deep.py:inner"
    assert top_frame("no traceback at all") is None


def appended(fingerprint: int, at: int, n: int = 1, uid: UserNumber = ADA, sample: str = "s") -> Failures:
    return Failures(uid, fingerprint, "t", "E", sample, n, Instant(at), Instant(at))


def test_counts_are_added_and_shown_by_the_hour() -> None:
    now = Instant(100 * HOUR + 5)
    found = folded({}, {}, [appended(7, 100 * HOUR, 2, sample="new"), appended(7, 98 * HOUR, 1, sample="old")])
    [group] = found.values()

    assert (group.count, group.first_seen, group.last_seen, group.sample) == (3, 98 * HOUR, 100 * HOUR, "new")
    assert group.trend(now) == [0] * 21 + [1, 0, 2]
    later = folded(found, {}, [appended(7, 130 * HOUR)])[ADA, 7]
    assert (later.count, sum(later.trend(Instant(130 * HOUR)))) == (4, 1)
    assert (
        len(folded({(ADA, 7): later}, {}, [appended(7, hour * HOUR) for hour in range(130, 200)])[ADA, 7].hours) == 24
    )


def test_a_user_with_many_groups_gets_one_of_the_rest() -> None:
    known: dict[tuple[UserNumber, int], ErrorGroup] = folded({}, {}, [appended(5, 0)])
    found = folded(known, {ADA: MOST_GROUPS - 1}, [appended(n, 0) for n in (5, 6, 7, 8)])

    assert {fingerprint: group.count for (_, fingerprint), group in found.items()} == {5: 2, 6: 1, OTHER: 2}
    assert found[ADA, OTHER].error_type == "other"
