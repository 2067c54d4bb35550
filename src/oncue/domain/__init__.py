"""What oncue knows, as pure functions over frozen values: no clock, no store, no network. `now` is always passed in."""
