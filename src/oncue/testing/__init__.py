"""Shipped to users: a clock that stands still until told, a private PostgreSQL, the suite every engine must pass."""
