"""Serialise requests as JSON: plain values only, and only the spider's own methods as callbacks."""

import json
from typing import Any

from scrapy import Request, Spider

from memeloom.configs.errors import MemeloomError

# Middlewares add these to each request; they may be secret, so they are not stored.
_PASSING_HEADERS = frozenset(
    {b"authorization", b"proxy-authorization", b"cookie", b"user-agent", b"accept", b"accept-language",
     b"accept-encoding"}
)  # fmt: skip
_PASSING_META = frozenset(
    {"proxy", "download_slot", "download_latency", "download_timeout", "_auth_proxy", "redirect_reasons", "wait"}
)


class BadRequest(MemeloomError):
    """A request that cannot be serialised, or a malformed stored request."""


def to_body(request: Request, spider: Spider) -> str:
    """Serialise a request as JSON.

    Raises:
        BadRequest: the callback is not a method of `spider`, or a value cannot be encoded.
    """
    form: dict[str, Any] = {"url": request.url, "callback": _name(request.callback, spider)}
    if request.errback is not None:
        form["errback"] = _name(request.errback, spider)
    if request.cb_kwargs:
        form["cb_kwargs"] = request.cb_kwargs
    if meta := {name: value for name, value in request.meta.items() if name not in _PASSING_META}:
        form["meta"] = meta
    if request.method != "GET":
        form["method"] = request.method
    if request.body:
        form["body"] = request.body.decode("latin-1")
    if headers := {
        name.decode("latin-1"): [value.decode("latin-1") for value in values]
        for name, values in request.headers.items()
        if name.lower() not in _PASSING_HEADERS
    }:
        form["headers"] = headers
    if request.dont_filter:
        form["dont_filter"] = True
    if request.priority:
        form["priority"] = request.priority
    try:
        return json.dumps(form, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise BadRequest(f"{request}: cannot be stored in the frontier: {error}") from error


def to_request(body: str, spider: Spider) -> Request:
    """Deserialise a request. Raises BadRequest."""
    try:
        form = json.loads(body)
        return Request(
            form["url"],
            callback=_method(form["callback"], spider),
            errback=_method(form["errback"], spider) if "errback" in form else None,
            cb_kwargs=form.get("cb_kwargs"),
            meta=form.get("meta"),
            method=form.get("method", "GET"),
            body=form["body"].encode("latin-1") if "body" in form else None,
            headers=form.get("headers"),
            dont_filter=form.get("dont_filter", False),
            priority=form.get("priority", 0),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadRequest(f"the frontier contains a malformed request: {error}: {body[:200]}") from error


def url_of(body: str) -> str:
    """Return the URL in a serialised request, or the start of `body` if it is malformed."""
    try:
        return str(json.loads(body)["url"])
    except (ValueError, KeyError, TypeError):
        return body[:200]


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
