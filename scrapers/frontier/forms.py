"""Requests as the frontier stores them: plain values only, and only the spider's own methods as callbacks."""

import json
from dataclasses import dataclass, field, fields, replace
from typing import Any

from scrapy import Request, Spider

from memeloom.configs.errors import MemeloomError
from memeloom.scrapers.hosts import host_of_url
from memeloom.scrapers.request_info import DEFAULT_INFO, RequestInfo, info_of, meta_of, without_info

# Middlewares add these to each request; they may be secret, so they are not stored.
_PASSING_HEADERS = frozenset(
    {b"authorization", b"proxy-authorization", b"cookie", b"user-agent", b"accept", b"accept-language",
     b"accept-encoding"}
)  # fmt: skip
_PASSING_META = frozenset(
    {"proxy", "download_slot", "download_latency", "download_timeout", "_auth_proxy", "redirect_reasons"}
)
# Names in the `meta` of requests that version 1 stored, and those in `RequestInfo`.
_OLD_META = {"browser": "browser", "reddit": "signed", "refreshed": "refreshed"}


class BadRequest(MemeloomError):
    """A request that cannot be serialised, or a malformed stored request."""


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """A request, independent of the engine that sends it.

    Attributes:
        callback: name of the spider's method for the response.
        errback: name of the spider's method for a failure.
        meta: Scrapy's own values.
        body: the body in Latin-1.
    """

    url: str
    callback: str
    errback: str | None = None
    cb_kwargs: dict[str, Any] = field(default_factory=dict)
    info: RequestInfo = DEFAULT_INFO
    meta: dict[str, Any] = field(default_factory=dict)
    method: str = "GET"
    body: str = ""
    headers: dict[str, list[str]] = field(default_factory=dict)
    dont_filter: bool = False
    priority: int = 0

    @property
    def host(self) -> str:
        """The host of its URL, with its port unless that is the default."""
        return host_of_url(self.url)

    @property
    def kind(self) -> str:
        """What kind of consumer takes it: "picture" or "page"."""
        return self.info.kind

    @classmethod
    def read(cls, text: str) -> "StoredRequest":
        """Deserialise a request. Raises BadRequest."""
        try:
            form = _of_this_version(json.loads(text))
            request = cls(**form | {"info": RequestInfo.read(form["info"])})
            host_of_url(request.url)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadRequest(f"the frontier contains a malformed request: {error}: {text[:200]}") from error
        return request

    def text(self) -> str:
        """Serialise the request as JSON. Raises BadRequest if a value cannot be encoded."""
        given = {name: value for name, default in _DEFAULTS if (value := getattr(self, name)) != default}
        form = {"url": self.url, "callback": self.callback, "info": self.info.form(), **given}
        try:
            return json.dumps(form, ensure_ascii=False, separators=(",", ":"))
        except (TypeError, ValueError) as error:
            raise BadRequest(f"<{self.method} {self.url}>: cannot be stored in the frontier: {error}") from error

    def again(self) -> "StoredRequest":
        """Return the request for its next retry."""
        meta = self.meta | {"retry_times": self.meta.get("retry_times", 0) + 1}
        return replace(self, meta=meta, dont_filter=True, priority=self.priority - 1)


_DEFAULTS = tuple(
    (each.name, each.default_factory() if callable(each.default_factory) else each.default)
    for each in fields(StoredRequest)
    if each.name not in ("url", "callback", "info")
)


def _of_this_version(form: dict[str, Any]) -> dict[str, Any]:
    """Return the form of a stored request; an older version kept its info in `meta`."""
    if "info" in form:
        return form
    meta = form.get("meta", {})
    info = {new: meta.pop(old) for old, new in _OLD_META.items() if old in meta}
    meta.pop("unique", None)
    info["kind"] = "page" if meta.pop("page", False) else "picture"
    info["obeys_robots"] = not meta.pop("dont_obey_robotstxt", False)
    return form | {"info": info, "meta": meta}


def to_stored(request: Request, spider: Spider) -> StoredRequest:
    """Return the stored form of a request. Raises BadRequest if its callback is not a method of `spider`."""
    return StoredRequest(
        request.url,
        _name(request.callback, spider),
        None if request.errback is None else _name(request.errback, spider),
        request.cb_kwargs,
        info_of(request) or DEFAULT_INFO,
        {name: value for name, value in without_info(request.meta).items() if name not in _PASSING_META},
        request.method,
        request.body.decode("latin-1"),
        {
            name.decode("latin-1"): [value.decode("latin-1") for value in values]
            for name, values in request.headers.items()
            if name.lower() not in _PASSING_HEADERS
        },
        request.dont_filter,
        request.priority,
    )


def to_request(stored: StoredRequest, spider: Spider) -> Request:
    """Return the Scrapy request of a stored request. Raises BadRequest."""
    try:
        return Request(
            stored.url,
            callback=_method(stored.callback, spider),
            errback=None if stored.errback is None else _method(stored.errback, spider),
            cb_kwargs=stored.cb_kwargs,
            meta=stored.meta | meta_of(stored.info),
            method=stored.method,
            body=stored.body.encode("latin-1"),
            headers=stored.headers,
            dont_filter=stored.dont_filter,
            priority=stored.priority,
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise BadRequest(f"the frontier contains a malformed request: {error}: {stored}"[:300]) from error


def url_of(text: str) -> str:
    """Return the URL in a serialised request, or the start of `text` if it is malformed."""
    try:
        return str(json.loads(text)["url"])
    except (ValueError, KeyError, TypeError):
        return text[:200]


def _name(callback: Any, spider: Spider) -> str:
    name = getattr(callback, "__name__", "")
    if getattr(callback, "__self__", None) is not spider or name.startswith("_"):
        raise BadRequest(f"{callback!r} is not a public method of the spider {spider.name}")
    return str(name)


def _method(name: str, spider: Spider) -> Any:
    ours = (kind for kind in type(spider).__mro__ if kind not in Spider.__mro__)
    method = next((vars(kind)[name] for kind in ours if name in vars(kind)), None)
    if name.startswith("_") or not callable(method):
        raise BadRequest(f"{name!r} is not a public method of the spider {spider.name} itself")
    return getattr(spider, name)
