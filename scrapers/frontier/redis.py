"""The frontier in Redis, shared by the processes of many machines. What a step does is written in `redis.lua`."""

import hashlib
import json
import logging
import time
from collections.abc import Iterable, Iterator
from importlib.resources import files
from typing import Any

from redis.exceptions import RedisError

from memeloom.scrapers.frontier.contract import (
    ABANDONED,
    LOOKS_THROUGH,
    POLL_SECONDS,
    SUSPECT,
    Changes,
    DeadRequest,
    Granted,
    QueuedRequest,
    RequestLease,
    Tallies,
)
from memeloom.scrapers.frontier.forms import url_of
from memeloom.scrapers.frontier.owner import Owner
from memeloom.scrapers.frontier.redis_link import RedisLink

_LOG = logging.getLogger(__name__)
_SCRIPT = files("memeloom.scrapers.frontier").joinpath("redis.lua").read_bytes()
_SHA = hashlib.sha1(_SCRIPT, usedforsecurity=False).hexdigest().encode()


class RedisFrontier:
    """`Frontier` on a Redis server, version 6.2 or later.

    It is as durable as the server is told to be (`appendonly yes`). While the server is away, an exchange waits up
    to 2 * `timeout_seconds` for it to come back. A step whose answer was lost on the way is not made twice.

    Raises:
        ConfigError: malformed URL.
    """

    def __init__(self, url: str, spider: str, lease_seconds: float, attempts: int, timeout_seconds: float) -> None:
        self._link = RedisLink(url, timeout_seconds)
        self._keys = f"{{memeloom:{spider}}}".encode()
        self._lease_seconds = lease_seconds
        self._owner = Owner.here()
        self._rules = _json(
            {
                "owner": self._owner.name,
                "lease_seconds": lease_seconds,
                "attempts": attempts,
                "suspect": SUSPECT,
                "abandoned": ABANDONED,
                "looks_through": LOOKS_THROUGH,
                "poll_seconds": POLL_SECONDS,
                # Longer than anybody asks again for an answer that did not arrive.
                "answer_seconds": int(60 + 10 * timeout_seconds),
            }
        )
        self._number = 0
        self._looked_at = 0.0

    def open(self) -> int:
        """See `Frontier.open`."""
        (left,), _ = self._step(b"open", {"gone": self._gone()})
        self._looked_at = time.monotonic()
        self._warn()
        return int(left)

    def exchange(self, changes: Changes, want: int, avoid: Iterable[str] = (), *, alone: bool = False) -> Granted:
        """See `Frontier.exchange`."""
        ask: dict[str, Any] = {
            "want": want,
            "alone": alone,
            "avoid": list(avoid),
            "waits": {place: entry.wait_seconds for place, entry in enumerate(changes.added) if entry.wait_seconds > 0},
            "done": [_id(number) for number in changes.done],
            "released": [_id(number) for number in changes.released],
            "failed": [(_id(number), reason) for number, reason in changes.failed],
            "dead": [(_id(number), reason) for number, reason in changes.dead],
            "rests": changes.rests,
            "marks": changes.marks,
        }
        if time.monotonic() - self._looked_at > min(self._lease_seconds / 4, 5.0):
            ask["gone"] = self._gone(patience=2.0)
            self._looked_at = time.monotonic()
        records = [_record(entry) for entry in changes.added]
        (known, died, unfinished, wait, lost, others), leases = self._step(b"exchange", ask, records, patience=2.0)
        if lost == b"2":
            _LOG.warning("%s: what it held of this crawl is gone; is it set to keep its data?", self._link.place)
        return Granted(leases, int(known), int(died), int(unfinished), float(wait), lost != b"0", others != b"0")

    def mark(self, name: str) -> str | None:
        """See `Frontier.mark`."""
        (note,) = self._look(b"mark", {"name": name}, patience=2.0)
        return None if note is None else note.decode()

    def tallies(self) -> Tallies:
        """See `Frontier.tallies`."""
        return Tallies(*self._look(b"tallies"))

    def dead(self, limit: int = 1000) -> list[DeadRequest]:
        """See `Frontier.dead`."""
        found = iter(self._look(b"dead", {"limit": limit}))
        return [
            DeadRequest(url_of(_body(record)), reason.decode(), int(tries), float(at))
            for record, reason, tries, at in zip(found, found, found, found, strict=True)
        ]

    def retry_dead(self) -> int:
        """See `Frontier.retry_dead`."""
        (count,), _ = self._step(b"retry_dead")
        return int(count)

    def forget(self) -> int:
        """See `Frontier.forget`."""
        (count,), _ = self._step(b"forget", {"gone": self._gone()})
        return int(count)

    def close(self) -> None:
        """See `Frontier.close`."""
        try:
            self._step(b"close", patience=2.0)
        finally:
            self._link.close()

    def _gone(self, patience: float = 1.0) -> list[str]:
        """Owners whose process on this machine is dead: only we can tell."""
        names = [name.decode() for name in self._look(b"owners", patience=patience)]
        return [name for name in names if Owner.named(name).is_gone()]

    def _step(
        self, step: bytes, ask: dict[str, Any] | None = None, records: Iterable[bytes] = (), *, patience: float = 1.0
    ) -> tuple[list[bytes], tuple[RequestLease, ...]]:
        """Make one step that changes something. Returns the numbers of its answer, and what it leased."""
        self._number += 1
        asked = _json({"number": self._number} | {name: value for name, value in (ask or {}).items() if value})
        answer = self._link.run(_SCRIPT, _SHA, b"1", self._keys, step, self._rules, asked, *records, patience=patience)
        numbers, _, leases = answer.partition(b"\n")
        return numbers.split()[1:], tuple(_leases(leases))

    def _look(self, step: bytes, ask: dict[str, Any] | None = None, *, patience: float = 1.0) -> list[Any]:
        asked = _json(ask or {})
        return list(self._link.run(_SCRIPT, _SHA, b"1", self._keys, step, self._rules, asked, patience=patience))

    def _warn(self) -> None:
        """Tell what the server's settings mean for the crawl, if it lets us see them."""
        settings: dict[bytes, bytes] = {}
        try:
            for name in (b"appendonly", b"save", b"maxmemory-policy"):
                pairs = self._link.call(b"CONFIG", b"GET", name)
                settings |= zip(pairs[::2], pairs[1::2], strict=True)
        except RedisError:
            # A managed server shows them to nobody.
            return
        if settings.get(b"appendonly") == b"no" and not settings.get(b"save"):
            _LOG.warning("%s keeps nothing when it stops; set `appendonly yes` there", self._link.place)
        if settings.get(b"maxmemory-policy") not in (None, b"noeviction"):
            _LOG.warning("%s may throw requests away; set `maxmemory-policy noeviction` there", self._link.place)


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _id(number: int) -> str:
    return f"{number:016}"


def _record(entry: QueuedRequest) -> bytes:
    """An entry as the script keeps it; `_body` finds the body in it again."""
    fingerprint, host = entry.fingerprint or b"", entry.host.encode("utf-8", "replace")
    body = entry.body.encode("utf-8", "replace")
    return b"%d %d %d %b%b%b" % (entry.priority, len(fingerprint), len(host), fingerprint, host, body)


def _body(record: bytes) -> str:
    _, fingerprint, host, rest = record.split(b" ", 3)
    return rest[int(fingerprint) + int(host) :].decode()


def _leases(answer: bytes) -> Iterator[RequestLease]:
    """The leases in an answer: each a line with id, tries and the length of the record, and the record."""
    at = 0
    while at < len(answer):
        start = answer.index(b"\n", at) + 1
        number, tries, length = answer[at:start].split()
        at = start + int(length)
        yield RequestLease(int(number), _body(answer[start:at]), int(tries))
