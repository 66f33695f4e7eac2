"""One connection to Redis that outlasts the server's restarts, and its errors in our words."""

import random
import time
from collections.abc import Sequence
from typing import Any

from redis import exceptions
from redis.backoff import NoBackoff
from redis.connection import Connection, parse_url
from redis.retry import Retry

from memeloom.catalog.errors import StoreDenied, StoreError, StoreFull, StoreUnavailable
from memeloom.configs.errors import ConfigError
from memeloom.configs.load import mask_url

_DENIED = (exceptions.AuthenticationError, exceptions.AuthorizationError, exceptions.NoPermissionError)
# What passes by itself: a server that is away, starts, hands over to another, or is busy with somebody's script.
_PASSING = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.AskError,
    exceptions.ClusterDownError,
    exceptions.ReadOnlyError,
    exceptions.TryAgainError,
)
_PASSING_WORDS = ("You can't write against a read only replica", "BUSY Redis is busy")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
_CHECK_IDLE_SECONDS = 30


class RedisLink:
    """A connection to the server of `url`. One thread at a time.

    timeout_seconds: deadline of one attempt.

    Raises:
        ConfigError: malformed URL.
    """

    def __init__(self, url: str, timeout_seconds: float) -> None:
        self.place = f"Redis at {mask_url(url.partition('?')[0])}"
        self._timeout = timeout_seconds
        try:
            options: dict[str, Any] = parse_url(url)  # type: ignore[no-untyped-call]
            kind = options.pop("connection_class", Connection)
            options |= {
                "socket_timeout": timeout_seconds,
                "socket_connect_timeout": timeout_seconds,
                "health_check_interval": _CHECK_IDLE_SECONDS,
                "client_name": "memeloom",
                "decode_responses": False,
                "protocol": 2,
                "retry": Retry(NoBackoff(), 0),
            }
            self._connection = kind(**options)
        except (ValueError, TypeError, exceptions.RedisError):
            # Its own words may repeat the password.
            raise ConfigError(
                "crawl.frontier: cannot use this Redis URL; write redis://HOST:PORT/0 or"
                " rediss://USER:PASSWORD@HOST:PORT/0 (special characters percent-encoded)"
            ) from None

    def call(self, *arguments: bytes) -> Any:
        """The server's answer to one command. Raises redis.exceptions.RedisError."""
        self._connection.send_packed_command([_packed(arguments)])
        return self._connection.read_response()

    def run(self, script: bytes, sha: bytes, *arguments: bytes, patience: float) -> Any:
        """The answer of a script, which is asked for again while the server is away.

        So the script may run more often than it is answered. It is the script's business to notice.

        patience: how many times the timeout to wait for the server.

        Raises StoreError.
        """
        deadline = time.monotonic() + patience * self._timeout
        pause = _FIRST_PAUSE
        while True:
            try:
                try:
                    return self.call(b"EVALSHA", sha, *arguments)
                except exceptions.NoScriptError:
                    return self.call(b"EVAL", script, *arguments)
            except exceptions.RedisError as error:
                if not _passes(error) or time.monotonic() + pause > deadline:
                    raise self._error(error, patience) from error
            time.sleep(pause * random.uniform(0.5, 1))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def close(self) -> None:
        """Hang up; a later call connects again."""
        self._connection.disconnect()

    def _error(self, error: exceptions.RedisError, patience: float) -> StoreError:
        whole = str(error)
        text = whole.partition("\n")[0].partition(" script: ")[0][:200].rstrip(" .")
        if isinstance(error, _DENIED):
            return StoreDenied(f"{self.place}: access denied ({text}); check the user, the password and their rights")
        if isinstance(error, exceptions.OutOfMemoryError) or "OOM command not allowed" in whole:
            return StoreFull(f"{self.place}: the server's memory is full (maxmemory); make room and run again")
        if "MISCONF" in whole:
            return StoreFull(f"{self.place}: the server cannot save its data to its disk; see its log")
        if _passes(error):
            seconds = patience * self._timeout
            return StoreUnavailable(f"{self.place}: not reached within {seconds:g} s ({text}); is the server running?")
        if "WRONGTYPE" in whole:
            return StoreError(f"{self.place}: something else has taken our keys; name a database of our own")
        return StoreError(f"{self.place}: {text}")


def _packed(arguments: Sequence[bytes]) -> bytes:
    return b"".join([b"*%d\r\n" % len(arguments), *[b"$%d\r\n%b\r\n" % (len(a), a) for a in arguments]])


def _passes(error: exceptions.RedisError) -> bool:
    if isinstance(error, _DENIED):
        return False
    return isinstance(error, _PASSING) or any(words in str(error) for words in _PASSING_WORDS)
