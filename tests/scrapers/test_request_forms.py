"""Requests on their way through the frontier: what goes in comes out, secrets and strangers' words do not."""

import json
from typing import Any

import pytest
from scrapy import FormRequest, Request, Spider

from memeloom.scrapers.frontier.forms import BadRequest, to_body, to_request, url_of


class Reader(Spider):
    name = "reader"

    def read(self, *_: object) -> None: ...

    def failed(self, *_: object) -> None: ...

    def _hidden(self) -> None: ...

    unknown = staticmethod(print)


@pytest.fixture
def spider() -> Reader:
    return Reader()


def test_a_request_comes_back_as_it_was(spider: Reader) -> None:
    state: dict[str, Any] = {"page": 2, "names": ["a", "ü"], "known": {"1": None}}
    request = Request(
        "https://example.com/a?b=1#c", spider.read, method="PUT", body=b"\x00\xff", headers={"X-Wish": "yes"},
        meta={"unique": "meme 1", "retry_times": 2}, cb_kwargs=state, errback=spider.failed,
        priority=-3, dont_filter=True,
    )  # fmt: skip
    again = to_request(to_body(request, spider), spider)
    for attribute in ("url", "method", "body", "meta", "cb_kwargs", "priority", "dont_filter", "callback", "errback"):
        assert getattr(again, attribute) == getattr(request, attribute)
    assert again.headers == request.headers


def test_a_form_comes_back_with_its_body(spider: Reader) -> None:
    request = FormRequest("https://example.com/", spider.read, formdata={"a": "1"})
    again = to_request(to_body(request, spider), spider)
    assert (again.method, again.body, again.headers) == ("POST", b"a=1", request.headers)


def test_what_middlewares_put_on_a_request_stays_out_of_the_file(spider: Reader) -> None:
    secrets = {"Authorization": "Bearer s3cret", "Cookie": "id=s3cret", "Proxy-Authorization": "Basic s3cret"}
    meta = {"proxy": "http://me:s3cret@proxy", "download_latency": 0.5, "wait": 3.0}
    body = to_body(Request("https://example.com/", spider.read, headers=secrets, meta=meta), spider)
    assert "s3cret" not in body
    assert json.loads(body) == {"url": "https://example.com/", "callback": "read"}


@pytest.mark.parametrize(
    "what",
    [
        lambda spider: {"callback": spider.unknown},
        lambda _: {"callback": Reader().read},
        lambda spider: {"callback": spider._hidden},
        lambda spider: {"callback": spider.read, "cb_kwargs": {"what": {1, 2}}},
        lambda spider: {"callback": spider.read, "meta": {"what": object()}},
    ],
    ids=["no method", "another spider's", "private", "a set", "an object"],
)
def test_what_would_not_come_back_is_refused_when_it_is_stored(spider: Reader, what: Any) -> None:
    with pytest.raises(BadRequest):
        to_body(Request("https://example.com/", **what(spider)), spider)


@pytest.mark.parametrize(
    "body",
    [
        "", "null", "[]", "{}", '{"url": 1, "callback": "read"}', '{"url": "nowhere", "callback": "read"}',
        '{"url": "https://example.com/", "callback": "_hidden"}', '{"url": "https://example.com/", "callback": "name"}',
        '{"url": "https://example.com/", "callback": "__class__"}',
        '{"url": "https://example.com/", "callback": "close"}', '{"url": "https://example.com/", "callback": ["read"]}',
        '{"url": "https://example.com/", "callback": "read", "body": 5}',
    ],
)  # fmt: skip
def test_strange_bodies_are_refused(spider: Reader, body: str) -> None:
    with pytest.raises(BadRequest):
        to_request(body, spider)
    assert isinstance(url_of(body), str)
