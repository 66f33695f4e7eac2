"""Bing's result grid: the picture, its page and its title; a grid that is not there is refused."""

import html
import json

import pytest

from memeloom.scrapers.errors import LayoutChanged
from memeloom.scrapers.sources.images import bing
from memeloom.scrapers.sources.images.search import FoundImage

URL = "https://www.bing.com/images/search?q=memes"


def result(**facts: object) -> str:
    return f'<a class="iusc" m="{html.escape(json.dumps(facts))}"></a>'


def test_results_are_read_in_order_and_each_picture_once() -> None:
    page = (
        result(murl="https://a.example/1.jpg?x=1&y=2", purl="https://a.example/", t='A \ue000"title"\ue001')
        + result(murl="https://b.example/2.png", turl="https://small.example/2", purl="javascript:alert(1)")
        + result(murl="https://a.example/1.jpg?x=1&y=2", purl="https://other.example/")
        + result(murl="javascript:alert(1)")
        + '<a class="iusc" m="not json"></a><a class="iusc"></a>'
    )
    assert bing.parse_results(page, URL) == (
        FoundImage("https://a.example/1.jpg?x=1&y=2", "https://a.example/", 'A "title"'),
        FoundImage("https://b.example/2.png", thumbnail_url="https://small.example/2"),
    )


@pytest.mark.parametrize("page", ["", "<p>consent</p>", '<a class="iusc" m="{}"></a>'])
def test_a_page_without_readable_results_is_refused(page: str) -> None:
    with pytest.raises(LayoutChanged, match=r"bing: 'a\.iusc"):
        bing.parse_results(page, URL)


def test_a_query_is_asked_for_as_it_is_written() -> None:
    assert bing.search_url("https://www.bing.com", "cats & dogs") == (
        "https://www.bing.com/images/search?q=cats+%26+dogs&form=HDRSC2"
    )
