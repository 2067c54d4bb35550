"""Tasks with large payloads and results, for tests with real processes."""

from __future__ import annotations

from typing import Any

from oncue import Tasks

tasks = Tasks()


@tasks.task("large", timeout="60s")
async def large(ctx: Any, text: str = "", size: int = 0) -> dict[str, Any]:
    return {"length": len(text), "text": "r" * size}


@tasks.task("large_apart", timeout="60s", isolation="process")
def large_apart(ctx: Any, text: str = "", size: int = 0) -> dict[str, Any]:
    return {"length": len(text), "text": "r" * size}
