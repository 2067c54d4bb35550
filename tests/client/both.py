"""One way to use either client: every test of this folder is about both."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Any, TypeVar

import httpx2
import msgspec

from oncue.client import AsyncClient, Client

T = TypeVar("T")
J1, R1, R2, K1 = (f"0198c0de-0000-7000-8000-0000000000{end}" for end in ("a1", "b1", "b2", "c1"))
Answering = Callable[[httpx2.Request], httpx2.Response]


class Pauses:
    """Pausing takes no time here: it moves the count that the client measures time by."""

    def __init__(self) -> None:
        self.all: list[float] = []
        self.now = 0.0

    def add(self, seconds: float) -> None:
        self.all.append(seconds)
        self.now += seconds

    async def add_at_once(self, seconds: float) -> None:
        self.add(seconds)


class Blocking:
    """The client whose calls return."""

    def __init__(self, pauses: Pauses | None, **options: Any) -> None:
        self.client: Any = Client(**options)
        if pauses is not None:
            self.client.retry_policy = patient(self.client, pauses)
            self.client._pause = pauses.add

    def __call__(self, made: T) -> T:
        return made

    def all(self, items: Iterable[T]) -> list[T]:
        return list(items)

    def first(self, count: int, items: Iterator[T]) -> list[T]:
        found = [next(items) for _ in range(count)]
        items.close()  # type: ignore[attr-defined]  # a generator's
        return found

    def close(self) -> None:
        self.client.close()


class Awaiting:
    """The client whose calls are awaited."""

    def __init__(self, pauses: Pauses | None, **options: Any) -> None:
        self._runner = asyncio.Runner()
        self.client: Any = AsyncClient(**options)
        if pauses is not None:
            self.client.retry_policy = patient(self.client, pauses)
            self.client._pause = pauses.add_at_once

    def __call__(self, made: Awaitable[T]) -> T:
        async def settle() -> T:
            return await made

        return self._runner.run(settle())

    def all(self, items: AsyncIterator[T]) -> list[T]:
        async def collect() -> list[T]:
            return [item async for item in items]

        return self._runner.run(collect())

    def first(self, count: int, items: AsyncIterator[T]) -> list[T]:
        async def collect() -> list[T]:
            found = [await anext(items) for _ in range(count)]
            await items.aclose()  # type: ignore[attr-defined]  # a generator's
            return found

        return self._runner.run(collect())

    def close(self) -> None:
        with self._runner:
            self._runner.run(self.client.close())


Either = Blocking | Awaiting


def patient(client: Client | AsyncClient, pauses: Pauses) -> Any:
    return msgspec.structs.replace(client.retry_policy, now=lambda: pauses.now, chance=lambda: 1.0)


class Wire:
    """A server of few words: gives the answers it was told, in this order, and keeps what it was asked."""

    def __init__(self, *answers: httpx2.Response | Exception | Answering) -> None:
        self.answers = list(answers)
        self.requests: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if not isinstance(answer, httpx2.Response):
            return answer(request)
        return httpx2.Response(answer.status_code, headers=answer.headers, content=answer.content)

    @property
    def lines(self) -> list[str]:
        return [f"{one.method} {one.url.raw_path.decode()}" for one in self.requests]

    @property
    def bodies(self) -> list[Any]:
        return [msgspec.json.decode(one.content) if one.content else None for one in self.requests]


def said(body: Any, status: int = 200, **headers: str) -> httpx2.Response:
    return httpx2.Response(status, json=body, headers=headers)


def problem(status: int, detail: str = "", headers: dict[str, str] | None = None, **members: Any) -> httpx2.Response:
    body = {"type": "about:blank", "title": "No", "status": status, "detail": detail, "errors": [], **members}
    return httpx2.Response(status, json=body, headers=headers)
