"""The frontier: one contract, kept by SQLite (embedded default) and by Redis (many processes, many machines).

A request goes PENDING → LEASED → ACKED. What every implementation promises
(`tests/scrapers/test_frontier.py` runs against both):

- All of one `Changes` happens or none of it, so that a request ends in the very step that stores its follow-ups.
- A lease lasts as long as its owner lives. An owner shows that with every exchange; one that has been silent for
  `lease_seconds`, or whose process on this machine is gone, gives everything it held back.
- Higher priorities first, then in the order in which they came. Hosts at rest are passed over, for every process.
- Text is any text; halves of surrogate pairs, which UTF-8 cannot hold, become "?".
- A fingerprint is taken once, until nothing is left to do and nobody is at work: then the next crawl begins anew.
- A request that was under way when its process died, twice, is a suspect: it is worked on last and alone. One that
  failed or was abandoned `attempts` times is set aside with its reason (dead); `retry_dead` makes it pending again.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from memeloom.configs.errors import ConfigError
from memeloom.configs.load import mask_url
from memeloom.configs.schema import Config

# So often abandoned, a request is worked on alone, to find out whether it is what kills the process.
SUSPECT = 2
ABANDONED = "the crawling process died while at work on it"
# Rows that a lease looks through for hosts that are not at rest, before it gives up until a rest ends.
LOOKS_THROUGH = 2000
# How long an empty frontier, whose work others hold, is left alone before it is asked again.
POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class QueuedRequest:
    """A request to be stored.

    body: the request itself, as `forms.py` writes it.
    fingerprint: what makes it the same as another; None (or nothing in it) is never the same.
    wait_seconds: it is not leased before.
    """

    body: str
    host: str
    fingerprint: bytes | None = None
    priority: int = 0
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RequestLease:
    """A request that is ours to work on. `tries` counts how often it was abandoned or has failed before."""

    id: int
    body: str
    tries: int


@dataclass(slots=True)
class Changes:
    """What is to happen in one step.

    done: leases whose work is durable, also those that were taken back meanwhile. released: leases given back as
    they were. failed: leases whose work failed, with the reason; they are tried again. dead: leases that are set
    aside at once, with the reason. Of these three only what we hold counts.
    rests: for how many seconds no request of a host is to be leased, by anyone.
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
        """How many single changes."""
        ended = len(self.done) + len(self.released) + len(self.failed) + len(self.dead)
        return len(self.added) + ended + len(self.rests) + len(self.marks)


@dataclass(frozen=True, slots=True)
class Granted:
    """What an exchange brought.

    known: how many of the added were known already.
    set_aside: how many requests died in this exchange.
    unfinished: requests that are pending or leased, ours included; 0 is the end of the crawl.
    next_seconds: if no lease was granted, when it is worth asking again at the latest.
    lost: our leases were taken back, because we had been silent for too long.
    shared: others are at work on this crawl as well.
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
    """A request that was set aside. `at`: seconds since 1970."""

    url: str
    reason: str
    tries: int
    at: float


@dataclass(frozen=True, slots=True)
class Tallies:
    """What a spider's part of the frontier holds, by state."""

    pending: int
    leased: int
    dead: int
    seen: int


class Frontier(Protocol):
    """One spider's part of the frontier, for one owner. Calls block; one thread at a time."""

    def open(self) -> int:
        """Become an owner. Returns how many requests an earlier crawl, or another process, has left unfinished.

        If there are none and nobody else is at work, the fingerprints of the last crawl are forgotten.
        """
        ...

    def exchange(self, changes: Changes, want: int, avoid: Iterable[str] = (), *, alone: bool = False) -> Granted:
        """Make `changes`, and lease up to `want` requests of hosts other than `avoid`.

        alone: we hold nothing, so that a suspect may be leased.

        Raises StoreError; then nothing has changed, or all has and nobody is told (a server that went away in
        the middle and did not come back in time).
        """
        ...

    def mark(self, name: str) -> str | None:
        """The note of that name."""
        ...

    def tallies(self) -> Tallies:
        """What there is, by state."""
        ...

    def dead(self, limit: int = 1000) -> list[DeadRequest]:
        """The requests that were set aside, oldest first."""
        ...

    def retry_dead(self) -> int:
        """Make all that was set aside pending again, as if new. Returns how many."""
        ...

    def forget(self) -> int:
        """Drop all but what other owners hold: requests, the dead, fingerprints, marks. Returns the unfinished."""
        ...

    def close(self) -> None:
        """Give back what is still leased and end being an owner; the last one of a finished crawl clears up."""
        ...


def storable(text: str) -> str:
    """`text` as every store can keep it."""
    return text.encode("utf-8", "replace").decode()


def frontier_of(config: Config, spider: str) -> Frontier:
    """The part of `spider` in the frontier of the settings; by default a file beside the catalog that it fills.

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
    """The part of `spider` in the frontier that `url` names, created if it is new.

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
