"""What the self-audit found wrong: one finding for each check and object, open until it was cleared."""

from __future__ import annotations

import asyncio

import pytest

from oncue.domain.errors import Invalid
from oncue.domain.instants import SECOND
from oncue.engines.audited import MOST_FINDINGS
from oncue.engines.port import Finding
from oncue.testing.conformance.store import Store, everything


def finding(store: Store, object_id: str = "a", words: str = "wrong", check: str = "cursor") -> Finding:
    return Finding(check, object_id, words, first_seen=store.now, seen_at=store.now)


async def all_findings(store: Store) -> list[Finding]:
    return await everything(lambda after: store.auditing.findings(limit=2, after=after))


async def test_a_finding_is_reported_once_and_keeps_when_it_was_first_seen(store: Store) -> None:
    first = finding(store)
    assert await store.auditing.record_findings([first], store.now) == [first]
    assert await store.auditing.record_findings([first], store.now) == [first]  # a repeat, its answer was lost
    store.advance(SECOND)
    other = finding(store, "b")

    assert await store.auditing.record_findings([finding(store, words="still wrong"), other], store.now) == [other]

    still = Finding("cursor", "a", "still wrong", first.first_seen, store.now)
    assert await all_findings(store) == [other, still]


async def test_of_two_findings_of_one_object_in_one_call_the_last_stays(store: Store) -> None:
    two = [finding(store, words="one"), finding(store, words="two")]

    assert await store.auditing.record_findings(two, store.now) == [two[1]]
    assert await all_findings(store) == [two[1]]


async def test_what_holds_again_is_cleared_once_and_open_again_when_it_is_found_again(store: Store) -> None:
    of_lane = finding(store, check="lane")
    await store.auditing.record_findings([finding(store), finding(store, "b"), of_lane], store.now)
    seen_at = store.now
    store.advance(SECOND)
    cleared = Finding("cursor", "a", "wrong", seen_at, seen_at, cleared_at=store.now)

    assert await store.auditing.clear_findings("cursor", ["a", "never found"], store.now) == [cleared]
    assert await store.auditing.clear_findings("cursor", ["a"], store.at(SECOND)) == []
    assert await store.auditing.clear_findings("cursor", [], store.now) == []
    assert (await all_findings(store))[-1] == cleared  # open ones come first

    again = finding(store)
    assert await store.auditing.record_findings([again], store.now) == [again]
    assert {one.key for one in await all_findings(store) if one.cleared_at is None} == {
        ("cursor", "a"),
        ("cursor", "b"),
        ("lane", "a"),
    }


async def test_the_newest_thousand_findings_stay_open_ones_before_others(store: Store) -> None:
    await store.auditing.record_findings([finding(store, "old and cleared")], store.now)
    await store.auditing.clear_findings("cursor", ["old and cleared"], store.now)
    await store.auditing.record_findings([finding(store, "old and open")], store.now)
    store.advance(SECOND)
    await store.auditing.record_findings([finding(store, f"{i:04}") for i in range(MOST_FINDINGS - 1)], store.now)

    found = (await store.auditing.findings(limit=2 * MOST_FINDINGS)).items
    assert len(found) == MOST_FINDINGS
    assert found[-1].object_id == "old and open"

    store.advance(SECOND)
    await store.auditing.record_findings([finding(store, "newest")], store.now)
    found = (await store.auditing.findings(limit=2 * MOST_FINDINGS)).items
    assert (len(found), found[0].object_id, found[-1].object_id) == (MOST_FINDINGS, "newest", "0998")


async def test_several_who_record_at_once_leave_no_more_than_a_thousand(store: Store) -> None:
    stores = [store, await store.second()]
    half = MOST_FINDINGS * 3 // 4
    parts = [[finding(store, f"{n} {i}") for i in range(half)] for n in range(4)]

    await asyncio.gather(*(stores[n % 2].auditing.record_findings(parts[n], store.now) for n in range(4)))

    assert len((await store.auditing.findings(limit=4 * half)).items) == MOST_FINDINGS


async def test_a_page_token_of_findings_is_checked(store: Store) -> None:
    with pytest.raises(Invalid):
        await store.auditing.findings(after="nonsense")
