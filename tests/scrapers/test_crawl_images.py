"""Crawls of image searches with real browsers: all that they find, whatever stands in the way, or a plain error."""

import html
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from memeloom.catalog.records import Meme, Template, TemplateRef
from memeloom.catalog.stores import open_documents
from memeloom.configs.load import load_config
from memeloom.configs.progress import Silent
from memeloom.configs.schema import Config, Store
from memeloom.demo.internet import Internet
from memeloom.scrapers.crawl import crawl
from memeloom.scrapers.errors import BrowserFailed, CrawlFailed
from memeloom.scrapers.spiders.images import template_names
from tests.scrapers.chromium import browsers_in, named, short_folder, wait_until
from tests.services.website import Answer, Asked, Website

PAGE = {"Content-Type": "text/html; charset=utf-8"}


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the browsers of a crawl put their folders; none may be left."""
    with short_folder() as path:
        monkeypatch.setattr(tempfile, "tempdir", str(path))
        yield path
        wait_until(lambda: not browsers_in(path), 15)
        wait_until(lambda: not list(path.glob("memeloom-*")), 15)


@pytest.fixture
def searching(website: Website, crawl_config: Callable[..., Config]) -> Callable[..., Config]:
    """Settings that search on the website; keyword arguments lie over `crawl.images`, `more` over `crawl`."""

    def build(more: dict[str, object] | None = None, **images: object) -> Config:
        website.pages.setdefault("/robots.txt", (200, {}, b""))
        own = {"bing": website.url, "google": website.url, "queries": ("cats",), "results_per_query": 1}
        return crawl_config(sources=("images",), images=own | images, **(more or {}))

    return build


def bing_url(query: str) -> str:
    return f"/images/search?q={query.replace(' ', '+')}&form=HDRSC2"


def results(*addresses: str) -> str:
    return "".join(f'<a class="iusc" m="{html.escape(json.dumps({"murl": address}))}">one</a>' for address in addresses)


def memes_of(config: Config) -> list[Meme]:
    return list(open_documents(config.store).scan())


def queries_of(website: Website, path: str) -> list[str]:
    asked = (urlsplit(one.path) for one in website.asked)
    return [parse_qs(one.query)["q"][0] for one in asked if one.path == path]


@pytest.fixture(scope="module")
def internet() -> Iterator[Internet]:
    with Internet(memes=24, posts=12, pictures=90, variety=True, consent=("bing", "google")) as running:
        yield running


def test_searches_are_scrolled_to_their_end_behind_their_consent_screens(
    internet: Internet, tmp_path: Path, store_config: Store
) -> None:
    overrides = ["crawl.sources=[images]", "crawl.images.engines=[bing, google]", "crawl.images.browsers=2"]
    config = load_config(overrides=[*internet.settings, *overrides, f"runs={tmp_path}/runs"], environment={})
    config = config.model_copy(update={"store": store_config})
    crawl(config, Silent())
    stored = {meme.id: meme for meme in memes_of(config)}
    served = {meme.id: meme for meme in internet.served(hashes=True) if meme.source == "images"}
    assert len(served) >= 80
    assert served.keys() <= stored.keys()
    for key, truth in served.items():
        meme = stored[key]
        assert meme.image is not None
        assert (meme.image.key, meme.page_url, meme.image_url) == (truth.sha256, truth.page_url, truth.image_url)
        assert meme.title is not None
        assert meme.title.startswith("Funny memes & more")


def test_templates_of_the_catalog_are_searched_for_those_with_the_most_memes_first(
    website: Website, searching: Callable[..., Config], picture: Callable[[int], bytes]
) -> None:
    config = searching(engines=("bing",), template_queries=True, templates=2, queries=("cats", "Third meme"))
    website.image("/1.jpg", picture(1))
    names = {"1": "First", "2": "Second", "3": "Third"}
    for name in ("cats", "Second meme", "Third meme", "First meme"):
        website.html(bing_url(name), results(f"{website.url}/1.jpg"))
    documents = open_documents(config.store)
    documents.upsert_templates(Template(id=key, slug=name, name=name, source="imgflip") for key, name in names.items())
    used = ["1", "2", "2", "2", "3", "3"]
    documents.upsert(
        Meme(id=f"imgflip:{place}", source="imgflip", template=TemplateRef(id=key, slug=names[key], name=names[key]))
        for place, key in enumerate(used)
    )
    documents.close()
    crawl(config, Silent())
    assert sorted(queries_of(website, "/images/search")) == ["Second meme", "Third meme", "cats"]


def test_only_templates_that_somebody_gave_a_name_are_searched_for(store_config: Store) -> None:
    first = Template(id="1", slug="first", name="First", source="imgflip")
    found = Template(id="found:1", slug="found", name="Unnamed 1", state="found", source="found")
    second = Template(id="2", slug="second", name="Second", source="imgflip")
    documents = open_documents(store_config)
    documents.upsert_templates([
        first, second, found,
        found.model_copy(update={"id": "found:2", "name": "Second, too", "merged_into": "2"}),
        found.model_copy(update={"id": "found:3", "name": "No template", "state": "rejected"}),
        found.model_copy(update={"id": "found:4", "name": "Named", "state": "known"}),
    ])  # fmt: skip
    for place, key in enumerate(["1", "2", "found:2"]):
        ref = TemplateRef(id=key, slug=key, name=key)
        documents.upsert([Meme(id=f"test:{place}", source="test", template=ref)])
    documents.close()
    assert template_names(store_config, 10) == ["Second", "First", "Named"]


def test_a_picture_that_two_queries_find_is_one_meme(
    website: Website, searching: Callable[..., Config], picture: Callable[[int], bytes]
) -> None:
    config = searching(queries=("cats", "dogs"), results_per_query=2)
    pages = {"cats": ("/1.jpg", "/2.jpg"), "dogs": ("/2.jpg", "/3.jpg")}
    for query, paths in pages.items():
        website.html(bing_url(query), results(*(website.url + path for path in paths)))
    for number in range(1, 4):
        website.image(f"/{number}.jpg", picture(number))
    crawl(config, Silent())
    assert sorted(meme.image_url or "" for meme in memes_of(config)) == [f"{website.url}/{n}.jpg" for n in (1, 2, 3)]


def test_a_search_that_asks_for_a_rest_gets_it(
    website: Website, searching: Callable[..., Config], picture: Callable[[int], bytes]
) -> None:
    website.image("/1.jpg", picture(1))

    def busy_once(_asked: Asked) -> Answer:
        if len(website.times(bing_url("cats"))) == 1:
            return 429, PAGE | {"Retry-After": "1"}, b"later"
        return 200, PAGE, results(f"{website.url}/1.jpg").encode()

    website.pages[bing_url("cats")] = busy_once
    config = searching()
    crawl(config, Silent())
    first, second = website.times(bing_url("cats"))
    assert second - first >= 1.0
    assert len(memes_of(config)) == 1


def test_a_browser_that_crashes_costs_a_retry(
    website: Website, searching: Callable[..., Config], picture: Callable[[int], bytes], folder: Path
) -> None:
    website.image("/1.jpg", picture(1))

    def strike_once(_asked: Asked) -> Answer:
        if len(website.times(bing_url("cats"))) == 1:
            for victim in named("chromium", folder):
                with suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
        return 200, PAGE, results(f"{website.url}/1.jpg").encode()

    website.pages[bing_url("cats")] = strike_once
    config = searching()
    summary = crawl(config, Silent())
    assert len(memes_of(config)) == 1
    assert summary.counts["retries"] == 1


@pytest.mark.parametrize(
    ("engine", "page", "error"),
    [
        ("bing", "<p>nothing", r"bing: 'a\.iusc'"),
        ("google", "<button id='L2AGLb'>?</button>", r"google: 'consent screen \(#W0wltc\)'"),
    ],
)
def test_a_page_that_is_not_understood_ends_the_crawl(
    website: Website, searching: Callable[..., Config], monkeypatch: pytest.MonkeyPatch,
    engine: str, page: str, error: str,
) -> None:  # fmt: skip
    monkeypatch.setattr("memeloom.scrapers.browsers.scroll._PATIENCE_SECONDS", 1.0)
    website.html(bing_url("cats"), page)
    website.html("/search?q=cats&udm=2&hl=en", page)
    with pytest.raises(CrawlFailed, match=error):
        crawl(searching(engines=(engine,)), Silent())


def test_robots_txt_holds_for_browsers_too(website: Website, searching: Callable[..., Config]) -> None:
    website.pages["/robots.txt"] = (200, {}, b"User-agent: *\nDisallow: /images/search")
    with pytest.raises(CrawlFailed, match=r"not one meme found.*forbidden by robots\.txt"):
        crawl(searching(), Silent())
    assert [asked.path for asked in website.asked] == ["/robots.txt"]


def test_a_search_that_leads_to_a_private_address_is_not_followed(
    website: Website, searching: Callable[..., Config]
) -> None:
    website.pages[bing_url("cats")] = (302, {"Location": "http://169.254.169.254/latest/meta-data/"}, b"")
    with pytest.raises(CrawlFailed, match=r"not one meme found.*address refused"):
        crawl(searching(), Silent())
    assert len(website.times(bing_url("cats"))) == 1


def test_the_end_of_a_crawl_is_not_put_off_by_a_page_without_end(
    website: Website, searching: Callable[..., Config]
) -> None:
    website.html(
        bing_url("cats"),
        f"""<body style="height: 3000px"><script>setInterval(() => document.body.insertAdjacentHTML(
        "beforeend", '{results(website.url + "/1.jpg")}'), 100)</script>""",
    )
    began = time.monotonic()
    crawl(searching({"max_minutes": 0.05}, page_seconds=600.0, results_per_query=10**6), Silent())
    assert len(website.times(bing_url("cats"))) == 1
    assert time.monotonic() - began < 120


@pytest.mark.parametrize("name", ["browser", "driver"])
def test_a_wrong_program_path_is_refused_before_anything_is_crawled(
    website: Website, searching: Callable[..., Config], name: str
) -> None:
    with pytest.raises(BrowserFailed, match=rf"crawl\.images\.{name}: no such program: '/no/such/program'"):
        crawl(searching(**{name: "/no/such/program"}), Silent())
    assert website.asked == []


def test_pages_of_several_browsers_are_shown_side_by_side(
    website: Website, searching: Callable[..., Config], picture: Callable[[int], bytes]
) -> None:
    website.image("/1.jpg", picture(1))
    both = threading.Barrier(2, timeout=60)

    def met(_asked: Asked) -> Answer:
        both.wait()
        return 200, PAGE, results(f"{website.url}/1.jpg").encode()

    queries: Sequence[str] = ("cats", "dogs")
    website.pages |= {bing_url(query): met for query in queries}
    config = searching(queries=queries, browsers=2)
    crawl(config, Silent())
    assert len(memes_of(config)) == 1
