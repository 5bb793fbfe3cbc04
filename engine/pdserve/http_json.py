"""What every server here does with a request: bound it, parse it, gate it, answer errors in one shape."""

import asyncio
import ipaddress
import json
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from pdserve.errors import BadRequest, EngineError
from pdserve.logs import log
from pdserve.secret_file import CONTROL_HEADER, SecretFile

Handler = Callable[[Request], Awaitable[Response]]
Body = TypeVar("Body", bound=BaseModel)
Result = TypeVar("Result")

# A prompt of a million token ids, written out.
_MAX_CALL_BYTES = 16 << 20
# The longest body allowed by default, at less than half a megabyte a second; who is slower holds a place for nothing.
_BODY_SECONDS = 10
# A client that takes nothing for so long has gone, whatever its connection says.
_SEND_SECONDS = 60


class BodyTooLarge(Exception):
    """Read no further than the limit."""


class BodyTooSlow(Exception):
    """Waited no longer than the limit."""


async def read_body(request: Request, limit: int) -> bytes:
    """Raises BodyTooLarge as soon as more than `limit` bytes have come, whatever Content-Length says; BodyTooSlow."""
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for piece in request.stream():
                body += piece
                if len(body) > limit:
                    raise BodyTooLarge(f"the body is longer than {limit} bytes")
    except TimeoutError:
        raise BodyTooSlow(f"the body was not whole after {_BODY_SECONDS} s") from None
    return bytes(body)


async def read_call(request: Request, kind: type[Body]) -> Body:
    """Raises BadRequest naming the field."""
    try:
        return kind.model_validate_json(await read_body(request, _MAX_CALL_BYTES))
    except (BodyTooLarge, BodyTooSlow) as error:
        raise BadRequest(str(error)) from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise BadRequest(f"{'.'.join(map(str, first['loc'])) or 'body'}: {first['msg']}") from None


def error_body(error: EngineError) -> dict[str, Any]:
    return {"error": {"code": error.code, "message": str(error)}}


def answer_engine_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, EngineError)
    return JSONResponse(error_body(error), status_code=error.status)


class ControlGate:
    """Who may call what is not for clients: the holder of the deployment's secret or, without one, this host.

    The secret itself is never sent: what opens the gate is derived from it.
    """

    def __init__(self, secret: SecretFile | None) -> None:
        self._secret = secret

    def allows(self, request: Request) -> bool:
        if self._secret is not None:
            return self._secret.takes_control_token(request.headers.get(CONTROL_HEADER, ""))
        try:
            return request.client is not None and ipaddress.ip_address(request.client.host).is_loopback
        except ValueError:
            return False

    def guard(self, handler: Handler) -> Handler:
        async def guarded(request: Request) -> Response:
            if not self.allows(request):
                message = "this call is for who holds the deployment's secret, or for this host when there is none"
                return JSONResponse({"error": {"code": "forbidden", "message": message}}, status_code=403)
            return await handler(request)

        return guarded


def whose(run: str) -> dict[str, str]:
    """What `/health` adds, so that whoever keeps this process can tell it from a stranger on its port."""
    return {"run": run} if run else {}


class CallerLeft(Exception):
    """The other end of the HTTP connection is gone."""


def awaited(future: Future[Result]) -> asyncio.Future[Result]:
    """An engine's future for `unless_caller_leaves`: a caller that leaves does not cancel it, and nobody is told when it
    then fails, because the one it was for has gone.
    """
    inner = asyncio.wrap_future(future)
    inner.add_done_callback(lambda done: done.cancelled() or done.exception())
    return asyncio.shield(inner)


async def unless_caller_leaves(request: Request, work: Awaitable[Result]) -> Result:
    """Raises CallerLeft, with `work` cancelled, if the connection closes first. The body must have been read."""

    async def left() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working = asyncio.ensure_future(work)
    watching = asyncio.create_task(left())
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise CallerLeft
        return working.result()
    finally:
        working.cancel()
        watching.cancel()


class ClosingStream(StreamingResponse):
    """Closes its iterator whichever way the response ends, so that what it holds is let go at once."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def bounded(message: Message) -> None:
            async with asyncio.timeout(_SEND_SECONDS):
                await send(message)

        try:
            await super().__call__(scope, receive, bounded)
        except TimeoutError:
            log("caller_stalled", seconds=_SEND_SECONDS)
        finally:
            close = getattr(self.body_iterator, "aclose", None)
            if close is not None:
                await close()


def json_line(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"
