"""Trace context: what is read of a request, what is ignored, and which runs are sampled."""

from typing import Any
from uuid import UUID

import msgspec
import pytest
from tests.domain.test_attempt import claimed

from oncue.domain.ids import JobId, RunId, uuid7
from oncue.domain.instants import DAY, HOUR, MILLISECOND, Instant
from oncue.domain.job import Spec, decode_spec, definition_of, encode_spec, understand_spec
from oncue.domain.run import Claimed, Trigger
from oncue.domain.trace import LOW_56, Trace, is_sampled, passed_on_unsampled, read_trace, threshold

TRACE_ID, SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE_ID}-{SPAN_ID}-01"
NOT_SAMPLED = f"00-{TRACE_ID}-{SPAN_ID}-02"
MADE = Instant(1_800_000_000 * 1_000_000)
JOB = uuid7(MADE, b"\x00" * 8)


def read(*parents: str, states: tuple[str, ...] = (), baggage: tuple[str, ...] = (), keys: Any = ()) -> Trace | None:
    return read_trace(parents, states, baggage, keys)


class TestReading:
    @pytest.mark.parametrize(
        ("sent", "kept"),
        [
            (PARENT, PARENT),
            (f" {PARENT}\t", PARENT),
            (f"00-{TRACE_ID}-{SPAN_ID}-03", f"00-{TRACE_ID}-{SPAN_ID}-03"),
            (f"cc-{TRACE_ID}-{SPAN_ID}-01", PARENT),  # of a later version what this one knows
            (f"cc-{TRACE_ID}-{SPAN_ID}-01-later", PARENT),
        ],
    )
    def test_a_traceparent(self, sent: str, kept: str) -> None:
        assert read(sent) == Trace(kept)

    @pytest.mark.parametrize(
        "sent",
        [
            "",
            "00",
            PARENT[:-1],
            f"{PARENT}-later",
            f"{PARENT}\nx",
            f"ff-{TRACE_ID}-{SPAN_ID}-01",
            f"00-{'0' * 32}-{SPAN_ID}-01",
            f"00-{TRACE_ID}-{'0' * 16}-01",
            PARENT.upper(),
            f"00-{TRACE_ID}-{SPAN_ID}-0g",
            PARENT.replace("-", "_"),
            f"cc-{TRACE_ID}-{SPAN_ID}-01later",
            "٠" * 55,
        ],
    )
    def test_a_malformed_one_is_ignored(self, sent: str) -> None:
        assert read(sent, states=("a=1",)) is None

    def test_two_are_ignored(self) -> None:
        assert read(PARENT, PARENT) is None
        assert read() is None

    def test_of_a_long_state_whole_members_are_kept(self) -> None:
        long = [f"vendor{n}={'x' * 90}" for n in range(3)]

        assert read(PARENT, states=(", ".join(long), "b=2")) == Trace(PARENT, ",".join(long[:2]))
        assert read(PARENT, states=("a=1", "b=2 , \x07c=3")) == Trace(PARENT, "a=1,b=2")

    def test_of_baggage_only_named_keys_are_kept(self) -> None:
        sent = ("user=ada;p=1, secret=x", f"tenant=7,big={'x' * 300}")

        assert read(PARENT, baggage=sent) == Trace(PARENT)
        assert read(PARENT, baggage=sent, keys=("tenant", "user")) == Trace(PARENT, "", "user=ada;p=1,tenant=7")
        assert read(PARENT, baggage=sent, keys=("big",)) == Trace(PARENT)


class TestCarrying:
    SPEC = Spec("t", trace=Trace(PARENT, "a=1", "b=2"))

    def test_it_is_stored_and_read(self) -> None:
        assert understand_spec(encode_spec(self.SPEC)) == self.SPEC
        assert encode_spec(Spec("t")) == b'{"task":"t"}'

    def test_it_is_no_part_of_the_definition(self) -> None:
        """Catches a PUT of the same job that counts as a change because it came in another trace."""
        assert definition_of(self.SPEC, None) == definition_of(Spec("t"), None)

    def test_a_field_that_a_newer_oncue_adds_to_it_keeps_nobody_from_running_the_job(self) -> None:
        stored = b'{"task":"t","trace":{"parent":"%s","later":1}}' % PARENT.encode()

        assert understand_spec(stored) == decode_spec(stored) == Spec("t", trace=Trace(PARENT))


def run(wanted: int = 0, run_id: UUID = JOB, trigger: Trigger = Trigger.SCHEDULE) -> Claimed:
    found = claimed(Spec("t"))
    return msgspec.structs.replace(
        found, run_id=RunId(run_id), job_id=JobId(JOB), wanted=Instant(MADE + wanted), trigger=trigger
    )


OTHER = uuid7(Instant(MADE + DAY), b"\xff" * 8)  # its low 56 bits are all set, those of JOB are not
NEVER, ALWAYS = threshold(0.0), threshold(1.0)


class TestSampling:
    def test_the_parent_decides_for_what_belongs_to_its_trace(self) -> None:
        for wanted in (0, HOUR, -DAY):
            assert is_sampled(run(wanted), Trace(PARENT), NEVER)
            assert not is_sampled(run(wanted), Trace(NOT_SAMPLED), ALWAYS)

    @pytest.mark.parametrize(
        "own",
        [
            run(HOUR + 2 * MILLISECOND),  # ids tell the millisecond
            run(run_id=OTHER),
            *(run(trigger=trigger) for trigger in Trigger if trigger is not Trigger.SCHEDULE),
        ],
    )
    def test_what_has_a_trace_of_its_own_is_sampled_by_its_id(self, own: Claimed) -> None:
        assert not is_sampled(own, Trace(PARENT), NEVER)
        assert is_sampled(own, Trace(NOT_SAMPLED), ALWAYS)

    def test_without_a_parent_the_low_56_bits_of_the_id_decide(self) -> None:
        half = threshold(0.5)
        for bits, sampled in ((0, False), (half - 1, False), (half, True), (LOW_56, True)):
            found = run(run_id=UUID(int=JOB.int & ~LOW_56 | bits))
            assert is_sampled(found, None, half) is sampled
        assert not is_sampled(run(run_id=OTHER), None, NEVER)
        assert is_sampled(run(), None, ALWAYS)

    def test_the_ratio_is_kept(self) -> None:
        ids = [
            uuid7(Instant(MADE + n), n.to_bytes(4, "big") * 2)
            for n in (k * 2_654_435_761 % 2**32 for k in range(10_000))
        ]

        assert 80 <= sum(is_sampled(run(run_id=one), None, threshold(0.01)) for one in ids) <= 120


def test_an_unsampled_run_of_its_own_does_not_add_to_the_trace_of_its_creation() -> None:
    """Catches a job that runs every minute for a year, and whose calls all join the trace of the day it was made."""
    assert passed_on_unsampled(run(), Trace(PARENT, "a=1")) == Trace(PARENT, "a=1")

    passed = passed_on_unsampled(run(run_id=OTHER), Trace(PARENT, "a=1", "b=2"))
    assert passed == Trace(f"00-{OTHER.hex}-{OTHER.hex[16:]}-00", baggage="b=2")
    assert read(passed.parent) == Trace(passed.parent)
