"""The addresses of the server, as FastAPI knows them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse
from starlette.exceptions import HTTPException
from torch import Tensor

import smoothcert.serve
from smoothcert.errors import InputError, SettingError, SmoothcertError
from smoothcert.report.document import POLICY, document
from smoothcert.report.fairness import MEANING
from smoothcert.serve import inputs
from smoothcert.serve.asking import as_text, last, reply, while_there
from smoothcert.serve.guard import Guard
from smoothcert.serve.line import Full
from smoothcert.serve.messages import Answer, Asked, Kept, Status
from smoothcert.serve.open_inference import routes
from smoothcert.serve.service import Late, Service
from smoothcert.serve.settings import Serving

NUMBERS = {
    "schema": {
        "type": "object",
        "required": ["input"],
        "properties": {
            "input": {"type": "array", "description": "Numbers in the shape of one input, nested or flat."},
            "radii": {"type": "array", "items": {"type": "number"}},
            "votes": {"type": "integer"},
            "deadline": {"type": "number", "description": "Seconds."},
        },
    },
    "examples": {
        "all that can be proved": {"value": {"input": [[[0.0, 1.0]]]}},
        "one radius": {"value": {"input": [0.0, 1.0], "radii": [0.5]}},
        "in a hurry": {"value": {"input": [0.0, 1.0], "votes": 10_000, "deadline": 0.5}},
    },
}
PICTURE = {"schema": {"type": "string", "format": "binary"}}
BODY = {"requestBody": {"content": {"application/json": NUMBERS, "image/png": PICTURE, "image/jpeg": PICTURE}}}
STATUSES = ((Full, 429), (Late, 503), (InputError, 422), (SettingError, 422), (SmoothcertError, 503), (Exception, 500))


class State:
    """The service once it is loaded, or why it is not."""

    def __init__(self) -> None:
        self.service: Service | None = None
        self.problem: BaseException | None = None
        self.failed: Callable[[], None] = lambda: None  # what to do when it cannot be loaded

    def ready(self) -> Service:
        """The service; 503 until it is there."""
        if self.service is None:
            raise HTTPException(503, "the server is still loading; ask again", {"Retry-After": "1"})
        return self.service


def create_app(load: Callable[[], Service], settings: Serving) -> tuple[Guard, State]:
    """The application and its state; ``load`` is called beside it, and until it is done nothing but health is answered."""
    state = State()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        loading = asyncio.create_task(_load(state, load))
        yield
        loading.cancel()
        with suppress(asyncio.CancelledError):
            await loading
        if state.service is not None:
            await state.service.stop()

    # FastAPI's own pages about the addresses would fetch their scripts from elsewhere.
    app = FastAPI(
        title="smoothcert",
        description=smoothcert.serve.__doc__ or "",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    for kind, status in STATUSES:
        app.add_exception_handler(kind, lambda request, problem, status=status: _refused(request, problem, status))
    app.add_exception_handler(HTTPException, _not_found)  # type: ignore[arg-type]
    _page(app, settings)
    _plain(app, state)
    app.include_router(routes(state.ready, settings))
    return Guard(app, settings, lambda: None if state.service is None else state.service.metrics), state


async def _load(state: State, load: Callable[[], Service]) -> None:
    try:
        service = await asyncio.to_thread(load)
        service.start()
        state.service = service
    except Exception as problem:
        state.problem = problem
        state.failed()


def _page(app: FastAPI, settings: Serving) -> None:
    """What a browser shows of the server; it holds nothing that a token guards."""
    told = {"token": bool(settings.tokens), "meanings": {label.value: words for label, words in MEANING.items()}}
    text = document(
        told, title="smoothcert serve", heading="Ask for a certificate", start="askForCertificates", own="serve"
    )
    page = HTMLResponse(text, headers={"Content-Security-Policy": POLICY})

    @app.get("/", include_in_schema=False)
    async def root() -> Response:
        return page


def _plain(app: FastAPI, state: State) -> None:
    """The addresses that are ours alone."""

    @app.post("/certify", responses={200: {"model": Answer}}, openapi_extra=BODY)
    async def certify(request: Request) -> Response:
        """A label with the region in which it is certain. With Accept: text/event-stream, the radius as it grows."""
        service = state.ready()
        x, asked = await _read(request, service)
        looks = "text/event-stream" in request.headers.get("accept", "")
        answers = service.certify(x, asked, request.state.client, looks=looks)
        if not looks:
            return reply(await while_there(request, last(answers)))
        first = await while_there(request, anext(answers))  # what is refused has its status
        return StreamingResponse(_events(first, answers), media_type="text/event-stream")

    @app.post("/predict", responses={200: {"model": Answer}}, openapi_extra=BODY)
    async def predict(request: Request) -> Response:
        """A label alone, for this very input."""
        service = state.ready()
        x, asked = await _read(request, service)
        if asked.limited:
            raise InputError("a prediction takes no radii, votes or deadline; ask /certify")
        return reply(await while_there(request, service.predict(x, request.state.client)))

    @app.get("/promises/{name}", responses={200: {"model": Kept}})
    async def promise(name: str) -> Response:
        """A promise that was made, by the id of an answer."""
        promises = state.ready().promises
        kept = None if promises is None else await promises.find(name)
        if kept is None:
            raise HTTPException(404, "there is no promise of this id")
        return reply(kept)

    @app.get("/status", responses={200: {"model": Status}})
    async def status() -> Response:
        """What this server is, and what its answers have spent."""
        return reply(state.ready().status())

    @app.get("/metrics")
    async def metrics() -> Response:
        """For Prometheus."""
        service = state.ready()
        return Response(service.metrics.text(service.status()), media_type="text/plain; version=0.0.4")


async def _read(request: Request, service: Service) -> tuple[Tensor, Asked]:
    """The input in a body, and what is wanted."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = (await request.receive())["body"]  # request.body() would keep it until the votes are in
    if kind in inputs.PICTURES:
        query = request.query_params
        return inputs.picture(body, kind, service.shape, service.grid), inputs.asked_in_query(query)
    if kind != "application/json":
        raise HTTPException(415, "send application/json, image/png or image/jpeg")
    given = inputs.read_json(body)
    array = inputs.numbers(given.pop("input", None), service.shape)
    return inputs.shaped(array, service.shape), inputs.asked_of(given)


async def _events(first: Answer, others: AsyncIterator[Answer]) -> AsyncIterator[str]:
    """Each look as an event, the last the answer."""

    def told(answer: Answer) -> str:
        return f"event: {'look' if answer.provisional else 'answer'}\ndata: {as_text(answer)}\n\n"

    try:
        yield told(first)
        async for answer in others:
            yield told(answer)
    except (SmoothcertError, Full, Late) as problem:
        yield f"event: error\ndata: {as_text({'error': str(problem)})}\n\n"


def _refused(request: Request, problem: Exception, status: int) -> Response:
    waiting = {"Retry-After": str(1 + getattr(problem, "ahead", 0) // 20)} if status in (429, 503) else {}
    reason = str(problem) if status != 500 else "the server failed; its log tells more about this request"
    return JSONResponse({"error": reason, "request": request.state.id}, status, waiting)


def _not_found(request: Request, problem: HTTPException) -> Response:
    return JSONResponse({"error": problem.detail, "request": request.state.id}, problem.status_code, problem.headers)
