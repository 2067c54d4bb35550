"""Ids that follow from another one: the same for whoever makes them, and in order."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from oncue.domain.ids import created_at, derived_id, sequel, uuid7
from oncue.domain.instants import MILLISECOND, Instant

instants = st.integers(0, 2**52).map(Instant)
entropy = st.binary(min_size=8, max_size=8)


@given(instants, entropy)
def test_sequels_are_in_order_a_microsecond_apart_and_the_first_is_itself(at: Instant, chance: bytes) -> None:
    first = uuid7(at, chance)

    found = [sequel(first, n) for n in range(100)]

    assert found[0] == first
    assert found == sorted(set(found))
    assert [one.int >> 64 for one in found] == [uuid7(Instant(at + n), chance).int >> 64 for n in range(100)]
    assert {one.version for one in found} == {7}
    assert found == [sequel(first, n) for n in range(100)]


@given(instants, instants, entropy, st.uuids())
def test_a_derived_id_tells_apart_whose_and_what_for(at: Instant, other: Instant, chance: bytes, of: UUID) -> None:
    first, second = uuid7(at, chance), uuid7(Instant(at + 1), chance)

    found = derived_id(first, of, other)

    assert found == derived_id(first, of, other)
    assert found not in (derived_id(second, of, other), derived_id(first, second, other))
    assert (found.version, created_at(found)) == (7, other // MILLISECOND * MILLISECOND)
