"""Every body and answer of the API, each declared once, here. The server checks, shows and describes them by these
structs, the client reads into them, the command line and the tables of docs/api.md list their fields.

Fields that are unknown here are passed over; statuses and the like stay text, so that a client keeps a value it has
never heard of as it came. Times are aware datetimes. The text below a field is what docs/api.md says of it.
Nothing else of oncue is imported here: whoever has only the client needs no more than msgspec.
"""
