"""What a notice sends: decided once, before the first try, and stored in its payload: each try sends the same."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from oncue.domain import attempt
from oncue.domain.messages import Message
from oncue.domain.notices import Told, read_told
from oncue.domain.run import Claimed, Gathered

SEALED = b'"sealed"'  # the checkpoint: no other notice takes this one along


class Outgoing(msgspec.Struct, frozen=True, tag_field="event", tag="message"):
    """Which notices a message tells of: the one that leads, and those that it took along.

    Once there is a `message`, it is sent at every try as it is here, and `told` has only the one that leads. Older
    releases read `event` and refuse this payload: the notice fails there, and a newer worker sends it later.
    """

    told: tuple[Told, ...]
    message: Message | None = None

    @property
    def leader(self) -> Told:
        return self.told[0]

    @property
    def message_id(self) -> str:
        """Return the id of the message at every try, also if it is requeued: that of the notice that leads."""
        return str(self.leader.notice_id)

    @property
    def thread(self) -> str:
        """Return what mails about the same have in common."""
        alone = self.message is not None and len(self.message.notices) == 1
        return str(self.leader.job_id) if alone else f"digest-{self.leader.entry.target}"

    @property
    def count(self) -> int:
        return len(self.told) if self.message is None else len(self.message.notices)


class _Kind(msgspec.Struct):
    event: str


_kind = msgspec.json.Decoder(_Kind).decode
_outgoing = msgspec.json.Decoder(Outgoing).decode
encode_outgoing = msgspec.json.Encoder().encode


def outgoing_of(run: Claimed) -> Outgoing:
    """Return what this notice sends, as far as it is decided."""
    payload = run.payload or b""
    return _outgoing(payload) if _kind(payload).event == "message" else Outgoing((_told(run),))


def taken_along(run: Claimed, leader: Told, others: Sequence[Claimed]) -> Gathered:
    """Decide what becomes of notices that go with another: they end, and that one tells of them."""
    done = msgspec.json.encode({"outcome": "digested", "message": leader.notice_id})
    ended = tuple(attempt.succeeded(one, one.claimed_at, one.claimed_at, done) for one in others)
    return Gathered(encode_outgoing(Outgoing((leader, *map(_told, others)))), SEALED, ended)


def _told(run: Claimed) -> Told:
    """Read a notice. One that an older release made has the id of its run."""
    told = read_told(run.payload or b"")
    return told if told.notice_id is not None else replace(told, notice_id=run.run_id)
