"""Schedulers with different time-zone rules on one database: only those with the newest plan jobs with a zone."""

from __future__ import annotations

from oncue.domain.instants import MINUTE, SECOND, Duration

SAID_EVERY = Duration(10 * SECOND)  # a scheduler writes which rules it uses at most this often
# After this, no scheduler counts as using the rules: one that went back to older rules must not wait for ever.
FORGOTTEN_AFTER = Duration(MINUTE)
