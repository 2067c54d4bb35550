"""URLs are shown without what is, or could be, a secret."""

import pytest

from oncue.domain.shown_url import shown_url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "objects",
        "sqlite:////srv/it's me@home/jobs.db",
        "sqlite:///:memory:",
        "file:///srv/objects",
        "s3://bucket/prefix",
        "http://127.0.0.1:8333",
        "http://[::1]:8333",
        "postgresql://db",
        "postgresql://ada@db:5432,[::1]:5433/jobs",
        "postgresql:///jobs?host=/run/postgresql&user=ada@corp",
        "postgresql://db/x?schema=jobs&prepared_statements=off&listen=db:5432&sslmode=verify-full&sslrootcert=/etc/ca",
        "smtp://me@mail:25?tls=off&secret=smtp",
        "postgresql://ada:@db/x?password=",
    ],
)
def test_what_is_harmless_is_shown(url: str) -> None:
    assert shown_url(url) == url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:geheim@db:5432/x", "postgresql://ada:•••@db:5432/x"),
        ("postgresql://ada:geh@eim@h1:1,h2:2/x", "postgresql://ada:•••@h1:1,h2:2/x"),
        ("postgresql://:geheim@db", "postgresql://:•••@db"),
        ("postgresql://db/x?schema=s&password=geheim&user=u", "postgresql://db/x?schema=s&password=•••&user=u"),
        ("postgresql://db/x?sslpassword=geheim", "postgresql://db/x?sslpassword=•••"),
        ("postgresql://db/x?PASSWORD=geheim", "postgresql://db/x?PASSWORD=•••"),
        ("postgresql://db/x?password=ge=heim", "postgresql://db/x?password=•••"),
        ("postgresql://db/x?password=ge&heim", "postgresql://db/x?password=•••&•••"),
        ("postgresql://db/x?password=ge#heim", "postgresql://db/x?password=•••#•••"),
        ("postgresql://db/x?password=ge\nheim", "postgresql://db/x?password=•••"),
        ("sqlite:///jobs.db?key=geheim", "sqlite:///jobs.db?key=•••"),
        ("s3://AKIA:geheim@bucket/x", "s3://AKIA:•••@bucket/x"),
        ("s3://bucket/x?secret=geheim", "s3://bucket/x?secret=•••"),
        ("az://container?sig=geheim", "az://container?sig=•••"),
    ],
)
def test_what_may_be_secret_is_masked(url: str, shown: str) -> None:
    assert shown_url(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        "smtp://u:gehe/im@h:25",
        "smtp://u:25/im@h",
        "postgresql://u:gehe/im@h/x",
        "postgresql://u:gehe?im@h/x",
        "postgresql://u:25?a=b@h/x",
        "postgresql://u:gehe#im@h/x",
        "postgresql://u:ge@he/im@h/x",
        "postgresql://me/u:geheim@h/x",
        "postgresql://u:geheim@[h/x",
        "postgresql://u:geheim/x",
        "postgresql:u:geheim@h/x",
        "u:geheim@h",
    ],
)
def test_of_a_url_that_cannot_be_understood_nothing_is_shown(url: str) -> None:
    assert shown_url(url) == "•••"
