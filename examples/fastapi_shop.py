"""A web shop with FastAPI: handlers enqueue, a worker does the work.

oncue up --tasks examples/fastapi_shop.py
uvicorn examples.fastapi_shop:app
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

from fastapi import FastAPI, HTTPException, Request

from oncue import Tasks
from oncue.client import AsyncClient, NotFound

tasks = Tasks("shop")


@tasks.task(queue="mail", max_retries=5)
async def send_receipt(order: int, to: str) -> str:
    return f"receipt for order {order} sent to {to}"


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, AsyncClient]]:
    """One client for all handlers: of the server of ONCUE_URL, or of the one on this machine."""
    async with tasks.connected() as client:
        yield {"oncue": client}  # for handlers that ask for more than to enqueue, as request.state.oncue


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{order}/receipt", status_code=202)
async def receipt(order: int, to: str) -> dict[str, str]:
    """Answer at once; the receipt is sent by a worker. Asked twice for the same order, it is sent once."""
    run = await send_receipt.using(idempotency_key=f"receipt-{order}").enqueue(order=order, to=to)
    return {"run": str(run.run_id)}


@app.get("/receipts/{run_id}")
async def status(run_id: UUID, request: Request) -> dict[str, object]:
    try:
        run = await request.state.oncue.runs.get(run_id)
    except NotFound:
        raise HTTPException(404, "no such receipt") from None
    return {"status": run.status, "result": run.result}
