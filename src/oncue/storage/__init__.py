"""Object storage: where payloads, results and logs go that are too large for the database."""
