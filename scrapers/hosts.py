"""The state of each host that a crawl talks to, with a circuit breaker that rests failing hosts.

    closed ── `failures` in a row ──► open: the host rests ── rest over ──► half open ── success ──► closed
                                        ▲                                      │
                                        └── one failure: twice as long a rest ─┘

After `trips` rests without a success in between, the host is given up for this crawl.
"""

from dataclasses import dataclass, field

from scrapy import Request
from scrapy.utils.httpobj import urlparse_cached

_LONGEST_REST_SECONDS = 600.0
# Weight of the newest value in the running mean of the latency.
_NEWEST = 0.1


@dataclass(slots=True)
class Host:
    """One host.

    Attributes:
        latency_seconds: running mean over its answers.
        rests_until: on the monotonic clock.
        in_a_row: failures since the last answer or rest.
        trips: rests since the last answer.
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
        """Return the state as a label for the progress and the report."""
        if self.given_up:
            return "given up"
        if self.rests_until > now:
            return "resting"
        return "trying" if self.trips else "ok"


@dataclass(slots=True)
class Hosts:
    """All hosts of one crawl. For `failures`, `rest_seconds` and `trips` see the module."""

    failures: int
    rest_seconds: float
    trips: int
    known: dict[str, Host] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Host:
        """Return the host of that name, created if it is new."""
        if name not in self.known:
            self.known[name] = Host()
        return self.known[name]

    def answered(self, name: str, received_bytes: int, latency_seconds: float) -> None:
        """Record an answer that is not a temporary failure; it closes the breaker."""
        host = self[name]
        host.answers += 1
        host.received_bytes += received_bytes
        first = host.answers == 1
        host.latency_seconds += (latency_seconds - host.latency_seconds) * (1.0 if first else _NEWEST)
        host.in_a_row = host.trips = 0

    def failed(self, name: str, now: float) -> float:
        """Record a failure. Returns the seconds that the host is to rest from now on; 0 for none."""
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
    """Return the host of a request with its port, unless that is the default: two servers on a machine differ."""
    return urlparse_cached(request).netloc.rpartition("@")[2].lower()
