from __future__ import annotations

import random

import pytest

from oncue.domain.cron import Cron, parse_cron
from oncue.domain.cron.text import describe
from oncue.domain.errors import Invalid


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("0 9 * * 1-5", "at 09:00, Monday to Friday"),
        ("*/15 * * * *", "every 15 minutes"),
        ("0 0 L * *", "at 00:00 on the last day of the month"),
        ("* * * * *", "every minute"),
        ("* * * * * *", "every second"),
        ("*/10 * * * * *", "every 10 seconds"),
        ("0 * * * *", "every hour"),
        ("@hourly", "every hour"),
        ("0 */6 * * *", "every 6 hours"),
        ("5 * * * *", "at minute 5 of every hour"),
        ("5/15 * * * *", "at minutes 5, 20, 35 and 50 of every hour"),
        ("*/7 * * * *", "at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour"),
        ("@daily", "at 00:00 every day"),
        ("0 9,17 * * *", "at 09:00 and 17:00 every day"),
        ("0,30 9,17 * * *", "at 09:00, 09:30, 17:00 and 17:30 every day"),
        ("15 30 9 * * *", "at 09:30:15 every day"),
        ("*/5 9-17 * * MON-FRI", "every 5 minutes from 09:00 to 17:55, Monday to Friday"),
        ("*/20 * 9 * * *", "every 20 seconds from 09:00 to 09:59:40"),
        ("30 9-17 * * *", "every hour from 09:30 to 17:30"),
        ("*/5 1,3 * * *", "every 5 minutes of hours 1 and 3"),
        ("15,45 * * * * *", "at seconds 15 and 45 of every minute of every hour"),
        ("*/10 5 * * * *", "every 10 seconds of minute 5 of every hour"),
        ("0 12 * 1-3 *", "at 12:00 every day in January to March"),
        ("*/5 * * 6,7 *", "every 5 minutes in June and July"),
        ("0 0 * * 5-7", "at 00:00, Friday to Sunday"),
        ("0 0 * * 0", "at 00:00, Sunday"),
        ("0 0 * 12 0", "at 00:00, Sunday in December"),
        ("@yearly", "at 00:00 on day 1 of January"),
        ("0 0 1,15,L * *", "at 00:00 on days 1 and 15 and the last day of the month"),
        ("0 0 15W 6 *", "at 00:00 on the workday nearest to day 15 of June"),
        ("0 0 LW * *", "at 00:00 on the last workday of the month"),
        ("0 0 * * 2#2", "at 00:00 on the second Tuesday of the month"),
        ("0 0 * 3 5L,MON#1", "at 00:00 on the first Monday and the last Friday of March"),
        ("0 0 13 * FRI", "at 00:00 on day 13 of the month or on Friday"),
        ("0 0 13 1 FRI", "at 00:00 on day 13 of January or on Friday in January"),
        ("0 0 */10 * MON", "at 00:00 on days 1, 11, 21 and 31 of the month, only on Monday"),
    ],
)
def test_describe(text: str, english: str) -> None:
    assert describe(parse_cron(text)) == english


def test_years_are_named() -> None:
    assert describe(parse_cron("0 9 1 1 *", years=(2027,))) == "at 09:00 on day 1 of January, only in 2027"
    assert describe(parse_cron("*/15 * * * *", years=(2027, 2028, 2029, 2031))) == (
        "every 15 minutes, only in 2027 to 2029 and 2031"
    )


def test_what_differs_is_described_differently() -> None:
    """A description that leaves something out, or says more than is true, would soon serve two expressions."""
    chance, known = random.Random(7), dict[str, Cron]()
    for _ in range(3_000):
        cron = random_cron(chance)
        other = known.setdefault(describe(cron), cron)
        if _meaning(cron) != _meaning(other):
            pytest.fail(f"{describe(cron)!r} is said of {cron} and of {other}")
    assert len(known) > 1_500


def random_cron(chance: random.Random) -> Cron:
    """From few values, so that different expressions come close to each other."""
    second = chance.choice(["", "", "", "0 ", "30 ", "* ", "*/30 ", "0,30 ", "15,45 "])
    minute = chance.choice(["0", "*", "30", "*/30", "0,30", "15,45", "*/15", "0-59/7", "1-59", "59"])
    hour = chance.choice(["0", "*", "9", "*/12", "*/2", "9-17", "9-10", "0,12", "1,3,5", "0-22", "23"])
    date = chance.choice(["*", "*", "1", "1-31", "*/2", "L", "LW", "15W", "1,15W", "1,L", "1-3", "?"])
    month = chance.choice(["*", "*", "1", "1-3", "1,3", "1-12", "2-12"])
    weekday = chance.choice(["*", "*", "1", "1-5", "0-6", "*/2", "5L", "1#1", "1,5L", "1#1,5L", "6,7", "?"])
    years = chance.choice([(), (), (2027,), (2027, 2028), (2027, 2028, 2029)])
    try:
        return parse_cron(f"{second}{minute} {hour} {date} {month} {weekday}", years=years)
    except Invalid:
        return random_cron(chance)


def _meaning(cron: Cron) -> tuple[object, ...]:
    return cron.minutes_of_day, cron.fields.seconds, cron.days_by_year
