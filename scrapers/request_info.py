"""The purpose of a request and how it is sent: one typed value in its `meta`."""

from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from scrapy import Request

_KEY = "memeloom"


@dataclass(frozen=True, slots=True)
class BrowserPage:
    """A page that a browser shows and scrolls: the name of its engine, and the number of results wanted."""

    engine: str
    results: int


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """What a request is for and how it is sent.

    Attributes:
        kind: its outcome counts as that of a page or of a picture; a scan reads the catalog.
        browser: how a browser shows the page; None for a plain download.
        signed: the source's sign-in signs it.
        refreshed: it is repeated after a new sign-in.
        obeys_robots: robots.txt applies to it.
        wait_seconds: delay before the next lease; not stored with the request.
    """

    kind: Literal["page", "picture", "scan"] = "page"
    browser: BrowserPage | None = None
    signed: bool = False
    refreshed: bool = False
    obeys_robots: bool = True
    wait_seconds: float = 0.0

    @classmethod
    def read(cls, form: dict[str, Any]) -> "RequestInfo":
        """Return the info of a stored form. Raises TypeError."""
        browser = form.get("browser")
        return cls(**form | {"browser": browser and BrowserPage(**browser)})

    def form(self) -> dict[str, Any]:
        """Return the plain values to store: those that differ from the defaults."""
        form = {name: value for name in _STORED if (value := getattr(self, name)) != getattr(DEFAULT_INFO, name)}
        if self.browser is not None:
            form["browser"] = {"engine": self.browser.engine, "results": self.browser.results}
        return form


DEFAULT_INFO = RequestInfo()
_STORED = tuple(each.name for each in fields(RequestInfo) if each.name != "wait_seconds")


def info_of(request: Request) -> RequestInfo | None:
    """Return the info of a request; None if it is for something else, such as robots.txt."""
    info: RequestInfo | None = request.meta.get(_KEY)
    return info


def meta_of(info: RequestInfo) -> dict[str, Any]:
    """Return the `meta` of a new request with `info`."""
    return {_KEY: info}


def changed(request: Request, **changes: Any) -> dict[str, Any]:
    """Return the `meta` of `request` with another info."""
    return request.meta | {_KEY: replace(request.meta.get(_KEY, DEFAULT_INFO), **changes)}


def without_info(meta: dict[str, Any]) -> dict[str, Any]:
    """Return the other values of `meta`."""
    return {name: value for name, value in meta.items() if name != _KEY}
