"""The frontier: one contract, implemented by SQLite (embedded default) and Redis (many processes and machines).

A request goes PENDING → LEASED → ACKED. Every implementation guarantees (`tests/scrapers/test_frontier.py` runs
against both):

- All of one `Changes` happens or none of it, so a request ends in the very step that stores its follow-ups.
- A lease lasts as long as its owner lives, which every exchange renews. The leases of an owner without an exchange
  for `lease_seconds`, or whose process on this machine has ended, return to the queue.
- Higher priorities come first, then earlier requests. Hosts at rest are skipped, for every process.
- Text is any text; halves of surrogate pairs, which UTF-8 cannot encode, become "?".
- A fingerprint is accepted once, until nothing is unfinished and no owner is left: then the next crawl starts anew.
- A request that was leased by two crashed processes is a suspect: it is leased last and alone. One that failed or
  was abandoned `attempts` times moves to the dead-letter list with its reason; `retry_dead` returns it to the queue.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from memeloom.configs.errors import ConfigError
from memeloom.configs.load import mask_url
from memeloom.configs.schema import Config

# After this many crashes a request is processed alone, to find out whether it causes them.
SUSPECT = 2
ABANDONED = "the crawling process crashed while processing it"
# Rows that a lease inspects for hosts that are not at rest.
LOOKS_THROUGH = 2000
# How soon to ask again a frontier whose requests are all leased by other processes.
POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class QueuedRequest:
    """A request to be stored.

    Attributes:
        body: the request, serialised by `forms.py`.
        host: its host.
        fingerprint: equal for duplicates; a request with None or b"" has no duplicates.
        priority: higher ones are leased first.
        wait_seconds: it is not leased before.
    """

    body: str
    host: str
    fingerprint: bytes | None = None
    priority: int = 0
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RequestLease:
    """A request leased by us. `tries` counts its failures and crashes before."""

    id: int
    body: str
    tries: int


@dataclass(slots=True)
class Changes:
    """What is to happen in one step. Of `released`, `failed` and `dead`, leases that are not ours are ignored.

    Attributes:
        added: new requests.
        done: leases whose work is durable, even if they expired meanwhile.
        released: leases returned to the queue unchanged.
        failed: leases whose work failed, with the reason; they are retried.
        dead: leases to be moved to the dead-letter list at once, with the reason.
        rests: for how many seconds no request of a host is to be leased, by any process.
        marks: notes that outlive the crawl, by name, such as the newest post of a listing.
    """

    added: list[QueuedRequest] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    released: list[int] = field(default_factory=list)
    failed: list[tuple[int, str]] = field(default_factory=list)
    dead: list[tuple[int, str]] = field(default_factory=list)
    rests: dict[str, float] = field(default_factory=dict)
    marks: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of single changes."""
        ended = len(self.done) + len(self.released) + len(self.failed) + len(self.dead)
        return len(self.added) + ended + len(self.rests) + len(self.marks)


@dataclass(frozen=True, slots=True)
class Granted:
    """The result of an exchange.

    Attributes:
        leases: the new leases.
        known: number of added requests that were duplicates.
        set_aside: number of requests moved to the dead-letter list.
        unfinished: requests that are pending or leased, ours included; 0 is the end of the crawl.
        next_seconds: without new leases, when to ask again at the latest.
        lost: our leases had expired and returned to the queue.
        shared: other owners take part in this crawl.
    """

    leases: tuple[RequestLease, ...] = ()
    known: int = 0
    set_aside: int = 0
    unfinished: int = 0
    next_seconds: float = 0.0
    lost: bool = False
    shared: bool = False


@dataclass(frozen=True, slots=True)
class DeadRequest:
    """A request in the dead-letter list. `at`: seconds since 1970."""

    url: str
    reason: str
    tries: int
    at: float


@dataclass(frozen=True, slots=True)
class Tallies:
    """Number of a spider's requests by state, and of its fingerprints."""

    pending: int
    leased: int
    dead: int
    seen: int


class Frontier(Protocol):
    """One spider's part of the frontier, for one owner. Calls block, and come from one thread at a time."""

    def open(self) -> int:
        """Become an owner. Returns the number of requests that an earlier crawl or other owners have unfinished.

        If there are none and no other owner, the fingerprints of the last crawl are deleted.
        """
        ...

    def exchange(self, changes: Changes, want: int, avoid: Iterable[str] = (), *, alone: bool = False) -> Granted:
        """Make `changes`, and lease up to `want` requests of hosts other than `avoid`.

        Args:
            changes: what is to happen.
            want: number of leases.
            avoid: hosts to skip.
            alone: we hold no leases, so a suspect may be leased.

        Raises:
            StoreError: nothing has changed, or everything has and the answer was lost (a server that failed in the
                middle and did not come back in time).
        """
        ...

    def mark(self, name: str) -> str | None:
        """Return the note of that name."""
        ...

    def tallies(self) -> Tallies:
        """Return the counts by state."""
        ...

    def dead(self, limit: int = 1000) -> list[DeadRequest]:
        """Return the dead-letter list, oldest first."""
        ...

    def retry_dead(self) -> int:
        """Return all dead letters to the queue with no tries. Returns their number."""
        ...

    def forget(self) -> int:
        """Delete requests, dead letters, fingerprints and marks, except the leases of other owners.

        Returns the number of unfinished requests deleted.
        """
        ...

    def close(self) -> None:
        """Release our leases and stop being an owner; the last owner of a finished crawl deletes its fingerprints."""
        ...


def storable(text: str) -> str:
    """Return `text` without halves of surrogate pairs."""
    return text.encode("utf-8", "replace").decode()


def frontier_of(config: Config, spider: str) -> Frontier:
    """Return the part of `spider` in the configured frontier; by default a file beside the catalog.

    Raises ConfigError, StoreError.
    """
    crawl = config.crawl
    url = crawl.frontier
    if url is None and config.store.documents.startswith("sqlite:"):
        url = f"{config.store.documents.removesuffix('.db')}-frontier.db"
    elif url is None:
        catalog = hashlib.sha256(config.store.documents.encode()).hexdigest()[:8]
        url = f"sqlite:///{config.runs}/frontier-{catalog}.db"
    timeout = config.store.timeout_seconds
    return open_frontier(
        url, spider, lease_seconds=crawl.lease_seconds, attempts=crawl.attempts, timeout_seconds=timeout
    )


def open_frontier(url: str, spider: str, *, lease_seconds: float, attempts: int, timeout_seconds: float) -> Frontier:
    """Return the part of `spider` in the frontier at `url`, created if it is new.

    Raises:
        ConfigError: unknown scheme or malformed URL.
        StoreError: it cannot be opened.
    """
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        from memeloom.scrapers.frontier.sqlite import SqliteFrontier

        return SqliteFrontier(rest[1:], spider, lease_seconds, attempts, timeout_seconds)
    if scheme in ("redis", "rediss", "unix"):
        from memeloom.scrapers.frontier.redis import RedisFrontier

        return RedisFrontier(url, spider, lease_seconds, attempts, timeout_seconds)
    raise ConfigError(f"crawl.frontier: cannot use {mask_url(url)!r}; write sqlite:///FILE or redis://HOST/0")
