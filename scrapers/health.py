"""Whether a crawl that goes on is worth going on with: judged by how its last requests ended, source by source.

A request counts once, when it is over: retries, waits and resting hosts are no failures of their own, so a slow
crawl is a healthy one. Nothing is judged before a window is full, so a crawl with little left to do is not judged.
"""

from collections import Counter, deque
from dataclasses import dataclass, field

from memeloom.configs.schema import Crawl

# Long enough for a bad spell of one part of a site to pass.
PAGES = 100
# Pictures lie on many hosts, and old posts lead to dead ones in a row.
PICTURES = 500
_NAMED = 3


@dataclass(slots=True)
class _Window:
    """The last `size` requests of one kind: None, or why it failed and where."""

    size: int
    limit: float | None
    ended: deque[tuple[str, str] | None] = field(default_factory=deque)
    failed: int = 0

    def add(self, failure: tuple[str, str] | None) -> bool:
        """Take one more in. True if more than `limit` of a full window failed."""
        self.ended.append(failure)
        self.failed += failure is not None
        if len(self.ended) > self.size:
            self.failed -= self.ended.popleft() is not None
        return self.limit is not None and len(self.ended) == self.size and self.failed > self.limit * self.size

    def said(self) -> str:
        """The most frequent reasons and hosts in one line."""
        failures = [failure for failure in self.ended if failure is not None]
        reasons = Counter(reason for reason, _ in failures)
        hosts = Counter(host for _, host in failures)
        return f"{_most(reasons)}; from {_most(hosts)}"


class Health:
    """How one source is doing. Each method returns what is wrong, in one line, or None."""

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
        """A request for one of the `pages` or `pictures` is over, and failed if there is a reason."""
        window = self._windows[kind]
        if not window.add((reason, host) if reason is not None else None):
            return None
        return (
            f"{self._source}: {window.failed} of the last {window.size} {kind} failed, more than "
            f"crawl.{self._keys[kind]} ({window.limit:.0%}) allows: {window.said()}"
        )

    def read(self, callback: str, url: str, *, empty: bool) -> str | None:
        """`callback`, whose pages show memes, has read one; `empty` if it found nothing to take and nothing to skip."""
        if not empty:
            self._empty[callback] = 0
            return None
        self._empty[callback] += 1
        if self._most_empty is None or self._empty[callback] < self._most_empty:
            return None
        return (
            f"{self._source}: {callback} found no meme on {self._empty[callback]} pages in a row "
            f"(crawl.max_empty_pages), the last of them {url}: the site has changed its layout, or sent something "
            f"else than the page; look at it in a browser"
        )


def _most(counts: Counter[str]) -> str:
    return ", ".join(f"{name} ({n})" for name, n in counts.most_common(_NAMED))
