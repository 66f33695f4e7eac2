"""The health of each source, judged by the outcomes of its last requests.

A request counts once, when it has ended; retries, delays and backoff do not count, so a slow crawl is healthy. Only a
full window is judged, so a crawl with few requests is not.
"""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from memeloom.configs.schema import Crawl
from memeloom.scrapers.reasons import UNREACHABLE

# Long enough to outlast a temporary failure of part of a site.
PAGES = 100
# Pictures are spread over many hosts, and old posts have many dead links in a row.
PICTURES = 500
_NAMED = 3


@dataclass(slots=True)
class _Window:
    """The outcomes of the last `size` requests of one kind: None, or (reason, host) of a failure."""

    size: int
    limit: float | None
    ended: deque[tuple[str, str] | None] = field(default_factory=deque)
    failed: int = 0

    def add(self, failure: tuple[str, str] | None) -> bool:
        """Add an outcome. Returns True if more than `limit` of a full window failed."""
        self.ended.append(failure)
        self.failed += failure is not None
        if len(self.ended) > self.size:
            self.failed -= self.ended.popleft() is not None
        return self.limit is not None and len(self.ended) == self.size and self.failed > self.limit * self.size

    def causes(self) -> str:
        failures = [failure for failure in self.ended if failure is not None]
        reasons = Counter(reason for reason, _ in failures)
        hosts = Counter(host for _, host in failures)
        return f"{_most(reasons)}; from {_most(hosts)}"


class Health:
    """The health of one source. Each method returns a one-line complaint, or None."""

    def __init__(self, source: str, crawl: Crawl) -> None:
        self._source = source
        self._windows = {
            "pages": _Window(PAGES, crawl.max_error_rate),
            "pictures": _Window(PICTURES, crawl.max_picture_error_rate),
        }
        self._keys = {"pages": "max_error_rate", "pictures": "max_picture_error_rate"}
        self._most_empty = crawl.max_empty_pages
        self._empty: Counter[str] = Counter()

    def ended(self, kind: str, host: str, reason: str | None = None) -> str | None:
        """Count a request for one of the `pages` or `pictures`; it failed if `reason` is given."""
        window = self._windows[kind]
        if not window.add((reason, host) if reason is not None else None):
            return None
        return (
            f"{self._source}: {window.failed} of the last {window.size} {kind} failed, more than "
            f"crawl.{self._keys[kind]} ({window.limit:.0%}) allows: {window.causes()}"
        )

    def read(self, callback: str, url: str, *, empty: bool) -> str | None:
        """Count a page of memes parsed by `callback`; `empty` if it yielded and skipped nothing."""
        if not empty:
            self._empty[callback] = 0
            return None
        self._empty[callback] += 1
        if self._most_empty is None or self._empty[callback] < self._most_empty:
            return None
        return (
            f"{self._source}: {callback} found no meme on {self._empty[callback]} pages in a row "
            f"(crawl.max_empty_pages), the last of them {url}: the site has changed its layout, or answered with "
            f"another page; look at it in a browser"
        )


def why_nothing_found(source: str, essential: str, pages: int, reasons: Mapping[str, int]) -> str:
    """Explain in one line why a finished source has no memes, based on the counted `reasons`."""
    counted = Counter(reasons)
    failed = {reason.removeprefix("page: ") for reason, n in counted.items() if n and reason.startswith("page: ")}
    if not pages and failed and failed <= UNREACHABLE:
        return f"{source}: no page could be reached: {_most(+counted)}; is this machine connected to the network?"
    causes = ", ".join(f"{reason} ({n})" for reason, n in (+counted).most_common(4))
    found = f"{source}: not one meme found: {essential!r} matched nothing on {pages} pages"
    return f"{found}; {causes}" if causes else found


def _most(counts: Counter[str]) -> str:
    return ", ".join(f"{name} ({n})" for name, n in counts.most_common(_NAMED))
