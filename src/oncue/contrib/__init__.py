"""oncue inside of other frameworks. Nothing else of oncue imports this."""
