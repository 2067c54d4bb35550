"""Pydantic's models as parameters and results, with a server and a worker behind them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    HttpUrl,
    PositiveInt,
    RootModel,
    SecretStr,
    field_validator,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass

import oncue
from oncue import Tasks
from oncue.client.errors import Invalid as Refused
from oncue.domain.errors import Invalid
from oncue.testing import OncueFake


class Line(BaseModel):
    article: str
    count: int = Field(ge=1)


class Order(BaseModel):
    model_config = ConfigDict(strict=True)

    number: int = Field(alias="no")
    placed: datetime
    lines: list[Line] = []
    replaces: Order | None = None

    @field_validator("number")
    @classmethod
    def positive(cls, number: int) -> int:
        if number < 0:
            raise ValueError("must be a positive number")
        return number


class Card(BaseModel):
    number: SecretStr


@dataclass
class Box:
    size: PositiveInt


@pydantic_dataclass
class Crate:
    size: int


tasks = Tasks()
PLACED = datetime(2027, 1, 31, 9, tzinfo=UTC)


@tasks.task
def confirm(order: Order, others: list[Order] = [], by: Order | None = None) -> Order:  # noqa: B006  # copied
    return Order(no=order.number + len(others), placed=order.placed, lines=order.lines, replaces=by or order)


@tasks.task(isolation="process")
def confirm_apart(order: Order) -> list[Order]:
    return [order]


def order(number: int = 7) -> Order:
    return Order(no=number, placed=PLACED, lines=[Line(article="tea", count=2)])


def test_a_run_gets_and_returns_models() -> None:
    async def main() -> None:
        async with oncue.embedded(tasks):
            found = await confirm.run(order(), others=[order(8), order(9)], by=order(1))
            assert found == Order(no=9, placed=PLACED, lines=order().lines, replaces=order(1))
            run = await (await confirm_apart.enqueue(order(3))).wait()
            assert (run.result, run.payload["order"]["no"]) == ([order(3)], 3)

    asyncio.run(main())


def test_an_assertion_takes_models_as_a_call_does() -> None:
    with OncueFake(tasks) as fake:
        confirm_apart.sync.enqueue(order(3))
        fake.assert_enqueued(confirm_apart, {"order": order(3)}, times=1)
        fake.assert_not_enqueued(confirm_apart, {"order": order(4)})


def test_the_server_refuses_what_does_not_fit_the_schema_of_a_model() -> None:
    async def main() -> None:
        async with oncue.embedded(tasks) as client:
            good = {"no": 7, "placed": "2027-01-31T09:00:00Z"}
            for given in ({"number": 7}, {**good, "lines": [{"article": "tea", "count": 0}]}, {**good, "replaces": 3}):
                with pytest.raises(Refused, match=r"payload\.order"):
                    await client.jobs.create(task="confirm", payload={"order": given})

    asyncio.run(main())


def test_a_validator_of_the_model_decides_before_anything_is_sent() -> None:
    with pytest.raises(Invalid, match=r"no: Value error, must be a positive number; lines\.0\.count: .*greater than"):
        confirm.payload(({"no": -1, "placed": "2027-01-31T09:00:00Z", "lines": [{"article": "a", "count": 0}]},), {})


def test_a_secret_that_pydantic_would_hide_is_refused() -> None:
    def pay(card: Card) -> None: ...

    with pytest.raises(Invalid, match=r"Card has a secret, which pydantic hides; use a parameter of oncue\.Secret"):
        Tasks().task(pay).payload((Card(number=SecretStr("4111")),), {})


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (PositiveInt, "'given': Gt is a rule of pydantic, checked in models only; use a model or msgspec.Meta"),
        (list[Annotated[str, AfterValidator(str.strip)]], "AfterValidator is a rule of pydantic"),
        (Box, "Gt is a rule of pydantic"),
        (Crate, "the validators of Crate, a dataclass of pydantic, would not run; use a BaseModel"),
        (list[Line | Card], r"put the choice into one model, like RootModel\[A \| B\], not list\[.*Line \| .*Card\]"),
        (HttpUrl, "HttpUrl is no type of JSON"),
    ],
)
def test_what_nothing_would_check_is_refused_where_it_is_declared(kind: Any, said: str) -> None:
    def send(given: Any) -> None: ...

    send.__annotations__ = {"given": kind}
    with pytest.raises(Invalid, match=said):
        Tasks().task(send)


def test_rules_in_models_and_texts_for_readers_are_taken() -> None:
    def send(given: RootModel[Line | Card], text: Annotated[str, Field(description="of the letter")] = "") -> None: ...

    with pytest.raises(Invalid, match="greater than or equal to 1"):
        Tasks().task(send).payload(({"article": "tea", "count": 0},), {})


def test_two_models_of_one_name_are_refused_where_they_are_declared() -> None:
    def other() -> Any:
        class Line(BaseModel):
            text: str

        class Letter(BaseModel):
            lines: list[Line]

        return Letter

    def send(order: Order, letter: other()) -> None: ...  # type: ignore[valid-type]

    send.__annotations__ = {"order": Order, "letter": other()}
    with pytest.raises(Invalid, match="two types are called Line; rename one of them"):
        Tasks().task(send)


def test_a_model_as_a_default_is_copied_for_each_run() -> None:
    def pack(line: Line = Line(article="tea", count=1)) -> None: ...  # noqa: B008

    task = Tasks().task(pack)
    first, second = task.arguments(None)["line"], task.arguments(b"{}")["line"]
    assert (first == second, first is second) == (True, False)
