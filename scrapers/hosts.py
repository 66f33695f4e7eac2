"""The state of each host, with a circuit breaker for failing hosts.

    closed ── `failures` in a row ──► open: backoff ── backoff over ──► half open ── success ──► closed
                                        ▲                                   │
                                        └──── one failure: twice as long ───┘

After `trips` backoffs without a success, the crawl sends the host no more requests.
"""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.utils.httpobj import urlparse_cached

_LONGEST_REST_SECONDS = 600.0
# Weight of the newest value in the moving average of the latency.
_NEWEST = 0.1


@dataclass(slots=True)
class Host:
    """One host.

    Attributes:
        latency_seconds: moving average over its responses.
        rests_until: end of the backoff, on the monotonic clock.
        in_a_row: failures since the last response or backoff.
        trips: backoffs since the last response.
    """

    answers: int = 0
    failures: int = 0
    received_bytes: int = 0
    latency_seconds: float = 0.0
    rests_until: float = 0.0
    in_a_row: int = 0
    trips: int = 0
    given_up: bool = False

    def state(self, now: float) -> str:
        """The state as a label for the progress and the report."""
        if self.given_up:
            return "given up"
        if self.rests_until > now:
            return "resting"
        return "trying" if self.trips else "ok"


@dataclass(slots=True)
class Hosts:
    """All hosts of a crawl. See the module for `failures`, `rest_seconds` and `trips`."""

    failures: int
    rest_seconds: float
    trips: int
    known: dict[str, Host] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Host:
        """Return the host called `name`, creating it if needed."""
        if name not in self.known:
            self.known[name] = Host()
        return self.known[name]

    def answered(self, name: str, received_bytes: int, latency_seconds: float) -> None:
        """Record a response other than a temporary failure; it closes the breaker."""
        host = self[name]
        host.answers += 1
        host.received_bytes += received_bytes
        first = host.answers == 1
        host.latency_seconds += (latency_seconds - host.latency_seconds) * (1.0 if first else _NEWEST)
        host.in_a_row = host.trips = 0

    def failed(self, name: str, now: float) -> float:
        """Record a failure. Returns the backoff in seconds, 0 for none."""
        host = self[name]
        host.failures += 1
        if host.rests_until > now:
            return 0.0  # the request was in progress when the breaker opened
        host.in_a_row += 1
        if host.in_a_row < (1 if host.trips else self.failures):
            return 0.0
        host.in_a_row = 0
        host.trips += 1
        host.given_up = host.trips > self.trips
        seconds = 0.0 if host.given_up else min(_LONGEST_REST_SECONDS, self.rest_seconds * 2.0 ** (host.trips - 1))
        host.rests_until = now + seconds
        return seconds


def host_of(request: Request) -> str:
    """Return the host of a request, with its port unless that is the default."""
    return _host(urlparse_cached(request).netloc)


def host_of_url(url: str) -> str:
    """Return the host of a URL, with its port unless that is the default. Raises ValueError."""
    return _host(urlsplit(url).netloc)


def _host(netloc: str) -> str:
    return netloc.rpartition("@")[2].lower()
