"""Answers of the middleware: problem details (RFC 9457), sent without the application."""

import json
from collections.abc import Sequence
from http import HTTPStatus
from typing import TypeAlias

from starlette.types import Send

# Paths that are always answered: probes must work when the server is busy, and without a key.
PROBES = frozenset({"/healthz", "/metrics", "/v2/health/live", "/v2/health/ready"})


Headers: TypeAlias = Sequence[tuple[bytes, bytes]]


def problem_answer(
    status: int, detail: str, *, field: str | None = None, retry_after: int | None = None
) -> tuple[Headers, bytes]:
    """Return headers and body of problem details.

    field: header or part of the request at fault. retry_after: seconds, for 429 and 503.
    """
    named = {} if field is None else {"field": field}
    body = json.dumps({"title": HTTPStatus(status).phrase, "status": status, "detail": detail, **named}).encode()
    more = [] if retry_after is None else [(b"retry-after", str(retry_after).encode())]
    kind, length = (b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode())
    return [kind, length, *more], body


async def send_problem(
    send: Send,
    status: int,
    detail: str,
    *,
    field: str | None = None,
    headers: Headers = (),
    retry_after: int | None = None,
) -> None:
    """Send problem details; see `problem_answer`. headers: further ones."""
    head, body = problem_answer(status, detail, field=field, retry_after=retry_after)
    await send({"type": "http.response.start", "status": status, "headers": [*head, *headers]})
    await send({"type": "http.response.body", "body": body})
