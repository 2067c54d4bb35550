"""State and machinery that calls share: caches, group commits, idempotency, outcomes, event watching."""
