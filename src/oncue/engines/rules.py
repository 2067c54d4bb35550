"""Schedulers with different time-zone rules on one store: those with the newest plan, the others leave jobs alone."""

from __future__ import annotations

from oncue.domain.instants import MINUTE, SECOND, Duration

SAID_EVERY = Duration(10 * SECOND)  # a scheduler says which rules it goes by no more often than this
# Newer rules that were said longer ago are nobody's any more: who went back to older ones must not wait for ever.
FORGOTTEN_AFTER = Duration(MINUTE)
