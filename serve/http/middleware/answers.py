"""Answers of the middleware: problem details (RFC 9457), sent without the application."""

import json
from collections.abc import Sequence
from http import HTTPStatus

from starlette.types import Send

# Paths that are always answered: probes must work when the server is busy, and without a key.
PROBES = frozenset({"/healthz", "/metrics", "/v2/health/live", "/v2/health/ready"})


async def send_problem(
    send: Send, status: int, detail: str, *, headers: Sequence[tuple[bytes, bytes]] = (), retry_after: int | None = None
) -> None:
    """Send problem details. retry_after: seconds, for 429 and 503."""
    phrase = HTTPStatus(status).phrase
    body = json.dumps({"type": "about:blank", "title": phrase, "status": status, "detail": detail}).encode()
    more = [] if retry_after is None else [(b"retry-after", str(retry_after).encode())]
    head = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*head, *headers, *more]})
    await send({"type": "http.response.body", "body": body})
