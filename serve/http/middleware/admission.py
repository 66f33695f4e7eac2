"""How many requests are answered at a time, and the answer to the others.

A request is refused as early as it can be: by the connection that receives it (`serve.http.protocol`), else before its
body is read. Refusing costs the processor that writes captions, so it must cost little.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from memeloom.serve.http.middleware.answers import PROBES, problem_answer, send_problem
from memeloom.serve.http.middleware.headers import SECURITY_HEADERS

# The key in the state of the application (`scope["state"]`) of its `Admission`.
ADMISSION: Final = "memeloom.admission"
_DETAIL: Final = "the server is busy"
_RETRY_SECONDS: Final = 1


class Admission:
    """Counts the requests that are being answered.

    Args:
        most: requests at a time.
        paths: smaller limits of paths whose requests take long, so that they leave room for others.
        refused: called for each request that was refused before it was read.
    """

    def __init__(
        self,
        most: int,
        paths: Mapping[str, int] = MappingProxyType({}),
        refused: Callable[[], None] = lambda: None,
    ) -> None:
        self._most, self._running = most, 0
        self._paths, self._on_path = paths, dict.fromkeys(paths, 0)
        self.refused = refused

    @property
    def is_full(self) -> bool:
        """Return whether no further request is answered, except for probes."""
        return self._running >= self._most

    def refuses(self, path: str) -> bool:
        """Return whether a request for `path` is refused now."""
        if path in PROBES:
            return False
        return self.is_full or (path in self._paths and self._on_path[path] >= self._paths[path])

    def enter(self, path: str) -> None:
        """Count a request that begins to be answered."""
        self._change(path, 1)

    def leave(self, path: str) -> None:
        """Count a request that was answered."""
        self._change(path, -1)

    def _change(self, path: str, by: int) -> None:
        if path in PROBES:
            return
        self._running += by
        if path in self._paths:
            self._on_path[path] += by


class RefuseEarly:
    """Answers 503 before the body is read, to requests that would get it after that."""

    def __init__(self, app: ASGIApp, admission: Admission) -> None:
        self._app, self._admission = app, admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application, if there is room."""
        if scope["type"] == "http" and self._admission.refuses(scope["path"]):
            self._admission.refused()
            await send_problem(send, 503, _DETAIL, retry_after=_RETRY_SECONDS)
            return
        await self._app(scope, receive, send)


class Concurrency:
    """Answers 503 to requests beyond the limit, and counts the others."""

    def __init__(self, app: ASGIApp, admission: Admission) -> None:
        self._app, self._admission = app, admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application, if there is room."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        if self._admission.refuses(path):
            await send_problem(send, 503, _DETAIL, retry_after=_RETRY_SECONDS)
            return
        self._admission.enter(path)
        try:
            await self._app(scope, receive, send)
        finally:
            self._admission.leave(path)


def _busy_answer() -> bytes:
    """Return the answer to a refused request as it goes over the connection, which stays open."""
    headers, body = problem_answer(503, _DETAIL, retry_after=_RETRY_SECONDS)
    lines = [b"HTTP/1.1 503 Service Unavailable", *(name + b": " + value for name, value in headers)]
    lines += [f"{name}: {value}".encode() for name, value in SECURITY_HEADERS.items()]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


BUSY: Final = _busy_answer()
