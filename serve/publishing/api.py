"""Requests to the HTTP API of a network: JSON answers, bounded in time and size, and errors as ours.

A token goes into the header `Authorization` only, never into an address; texts of a server that repeat it are masked.
"""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import wraps
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar
from urllib.parse import parse_qs, urlsplit

import httpx2
from pydantic_core import from_json

from memeloom.configs.masks import MASK
from memeloom.serve.publishing.contract import AccountRefused, Limited, Rejected, Unavailable

P = ParamSpec("P")
T = TypeVar("T")

# Pages of a listing: a server may name a next page for ever.
MOST_PAGES: Final = 1000
_MOST_BYTES: Final = 8 * 2**20
_MOST_TEXT: Final = 200  # of a server's message
# Pauses after "too many requests": without a word about when, and at most.
_USUAL_PAUSE, _LONGEST_PAUSE = timedelta(minutes=1), timedelta(days=1)


class Answer(NamedTuple):
    """A successful answer. next: the query of the next page of a listing; empty on the last."""

    status: int
    json: Any
    next: Mapping[str, str]


class Api:
    """The connection to a server.

    Attributes:
        token: sent with each request that does not name another.

    Args:
        server: its address, without a slash at the end.
        secret: never shown.
        seconds: deadline of a request, answer included.
    """

    def __init__(self, server: str, secret: str, seconds: float) -> None:
        self.host = urlsplit(server).netloc
        self.seconds = seconds
        self.token = ""
        self._server, self._secret = server, secret
        self._client = httpx2.Client(timeout=seconds, follow_redirects=False, trust_env=False)

    def __call__(
        self, method: str, path: str, *, token: str | None = None, headers: Mapping[str, str] | None = None, **body: Any
    ) -> Answer:
        """Send a request; `body` are arguments of httpx: params, data, files, json, content.

        Raises:
            PublishError: see there.
        """
        bearer = self.token if token is None else token
        sent = {**(headers or {}), **({"Authorization": f"Bearer {bearer}"} if bearer else {})}
        end = time.monotonic() + self.seconds
        content = bytearray()
        try:
            with self._client.stream(method, self._server + path, headers=sent, **body) as answer:
                for part in answer.iter_bytes():
                    content += part
                    if len(content) > _MOST_BYTES or time.monotonic() > end:
                        raise Unavailable(f"{self.host}: the answer is too large or too slow")
        except httpx2.HTTPError as error:
            raise Unavailable(f"{self.host}: does not answer ({type(error).__name__})") from None
        if not answer.is_success:
            self._raise(answer.status_code, answer.headers, bytes(content))
        link = answer.links.get("next", {}).get("url", "")
        query = {name: values[-1] for name, values in parse_qs(urlsplit(link).query).items()}
        try:
            return Answer(answer.status_code, from_json(bytes(content)) if content else None, query)
        except ValueError:
            raise Unavailable(f"{self.host}: the answer is not JSON") from None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _raise(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        """Raise what an error status means."""
        code, said = _read_error(content)
        said = said.replace(self._secret, MASK).replace(self.token or self._secret, MASK)[:_MOST_TEXT]
        message = f"{self.host}: {status}{f' {said}' if said else ''}"
        if status == 429:
            raise Limited(message, _resumes(headers, datetime.now(UTC)))
        if status in (401, 403):
            raise AccountRefused(message, code or str(status))
        if 400 <= status < 500 and status not in (408, 425):
            raise Rejected(message, code or str(status))
        raise Unavailable(message, code or str(status))


def understood(function: Callable[P, T]) -> Callable[P, T]:
    """Raise Unavailable where `function` finds an answer without the fields that it needs."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            raise Unavailable(
                f"an answer that cannot be used ({type(error).__name__}: {error})"[:_MOST_TEXT]
            ) from error

    return call


def text_of(value: Any) -> str:
    """Return a text of an answer. Raises TypeError if it is something else."""
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} instead of a text")
    return value


def _read_error(content: bytes) -> tuple[str, str]:
    """Return the code and the text of an error: `{"error": CODE, "message": TEXT}`, or `{"error": TEXT}`."""
    try:
        found = from_json(content)
        error, message = str(found["error"]), found.get("message")
    except (ValueError, KeyError, TypeError, AttributeError):
        return "", ""
    return (error, " ".join(str(message).split())) if message is not None else ("", " ".join(error.split()))


def _resumes(headers: Mapping[str, str], now: datetime) -> datetime:
    """Return when requests are accepted again: `Retry-After`, else the reset of the limit; a date or seconds."""
    at = now + _USUAL_PAUSE
    for name in ("Retry-After", "X-RateLimit-Reset", "ratelimit-reset"):
        if text := headers.get(name, "").strip():
            try:
                at = _moment(text, now)
                break
            except (ValueError, OverflowError):
                continue
    return min(max(at, now + timedelta(seconds=1)), now + _LONGEST_PAUSE)


def _moment(text: str, now: datetime) -> datetime:
    """Return the time that a header means: seconds from now, seconds since 1970, or a date of either notation."""
    if text.isdecimal():
        seconds = int(text)
        return datetime.fromtimestamp(seconds, UTC) if seconds > 10**9 else now + timedelta(seconds=seconds)
    at = datetime.fromisoformat(text) if text[0].isdigit() else parsedate_to_datetime(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)
