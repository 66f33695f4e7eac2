"""The miniature Imgflip, read with the selectors of public scrapers and checked against the ground truth."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urljoin

import pytest
from parsel import Selector
from PIL import Image

from memeloom.demo.internet import Internet
from memeloom.demo.truth import ServedMeme

Fetch: TypeAlias = Callable[..., Any]


@pytest.fixture(scope="module")
def truth(internet: Internet) -> dict[str, ServedMeme]:
    return {meme.id: meme for meme in internet.served() if meme.source == "imgflip"}


def pages(fetch: Fetch, url: str, limit: int = 50) -> Iterator[Selector]:
    """A page and all that its `next` links lead to."""
    for _ in range(limit):
        answer = fetch(url)
        assert answer.status == 200, url
        page = Selector(answer.text)
        yield page
        href = page.css(".pager a.pager-next").attrib.get("href")
        if href is None:
            return
        url = urljoin(url, href)
    pytest.fail(f"paging does not end: {url}")


def key_in(address: str) -> str:
    """The image key in the address of a picture."""
    return address.rpartition("/")[2].partition(".")[0]


def amount(unit: Selector, what: str) -> int | None:
    found = re.search(rf"([\d,]+) {what}s?\b", unit.css(".base-view-count::text").get(""))
    return int(found[1].replace(",", "")) if found else None


def test_the_template_list_holds_every_template_once(
    internet: Internet, fetch: Fetch, truth: dict[str, ServedMeme]
) -> None:
    found = [
        (str(int(key_in(box.css(".mt-img-wrap img").attrib["src"]), 36)), box.css("h3.mt-title a").attrib["href"])
        for page in pages(fetch, internet.url("imgflip", "/memetemplates?sort=top-all-time"))
        for box in page.css("#mt-boxes-wrap .mt-box")
    ]
    named = {(number, href.rpartition("/")[2]) for number, href in found}
    assert len(found) == 12
    assert named == {(meme.template_id, meme.template_slug) for meme in truth.values()}
    featured = [href.count("/") == 2 for _, href in found]
    assert any(featured)
    assert not all(featured)
    assert all(fetch(internet.url("imgflip", href)).status == 200 for _, href in found)


def test_listings_equal_the_ground_truth_newest_first(
    internet: Internet, fetch: Fetch, truth: dict[str, ServedMeme]
) -> None:
    seen: list[str] = []
    for number, slug in {(meme.template_id, meme.template_slug) for meme in truth.values()}:
        keys: list[str] = []
        for page in pages(fetch, internet.url("imgflip", f"/meme/{number}/{slug}?sort=latest")):
            blank = page.css('a.meme-link[href^="/memetemplate/"] img').attrib["src"]
            assert str(int(key_in(blank), 36)) == number
            assert page.css(".alt-names::text").get()
            stills = [unit for unit in page.css(".base-unit") if unit.css("img.base-img")]
            keys += [check_unit(unit, truth, number) for unit in stills]
        assert keys == sorted(keys, key=lambda key: int(key, 36), reverse=True)
        seen += keys
    assert len(seen) == len(truth) == 480
    assert {f"imgflip:{key}" for key in seen} == set(truth)


def check_unit(unit: Selector, truth: dict[str, ServedMeme], template_id: str) -> str:
    link = unit.css('h2.base-unit-title a[href^="/i/"]')
    key = link.attrib["href"].removeprefix("/i/")
    meme, image = truth[f"imgflip:{key}"], unit.css("img.base-img")
    assert link.xpath("string()").get() == meme.title
    assert f"http:{image.attrib['src']}" == meme.image_url
    assert meme.template_id == template_id
    caption = image.attrib["alt"].removeprefix(f"{meme.title} |  ")
    text, _, rest = caption.rpartition(" | image tagged in memes,")
    assert tuple(text.split("; ", len(meme.boxes) - 1)) == meme.boxes
    assert rest.endswith(" | made w/ Imgflip meme maker")
    assert (amount(unit, "view"), amount(unit, "upvote")) == (meme.views, meme.score)
    return key


def test_alt_texts_have_the_format_of_saved_pages(internet: Internet, fetch: Fetch, real_data: Path) -> None:
    grammar = re.compile(r"[^|]+ \|  [^|]+ \| image tagged in [^|]+ \| made w/ Imgflip meme maker")
    saved = json.loads((real_data / "pages" / "imgflip" / "alt_strings_real.json").read_text())
    page = Selector(fetch(internet.url("imgflip", "/meme/Two-Doors-No-Exit?sort=latest")).text)
    ours = [alt for alt in page.css("img.base-img::attr(alt)").getall() if alt.count("|") == 3]
    assert all(grammar.fullmatch(entry["alt"]) for entry in saved if "alt" in entry)
    assert ours
    assert all(grammar.fullmatch(alt) for alt in ours)


def test_a_page_beyond_the_last_shows_no_memes_and_no_next(internet: Internet, fetch: Fetch) -> None:
    page = Selector(fetch(internet.url("imgflip", "/meme/Proud-Toaster?page=99")).text)
    assert not page.css(".base-unit")
    assert not page.css(".pager-next")
    assert page.css("a.meme-link img")


def test_a_meme_page_equals_its_listing_entry(internet: Internet, fetch: Fetch, truth: dict[str, ServedMeme]) -> None:
    for meme in list(truth.values())[::48]:
        page = Selector(fetch(meme.page_url).text)
        assert page.css("#img-title").xpath("string()").get() == meme.title
        assert f"http:{page.css('#im').attrib['src']}" == meme.image_url
        assert page.css(".img-desc")[1].xpath("string()").get() == "; ".join(meme.boxes)
        views = page.css(".img-info .img-views::text").get("")
        assert int(re.sub(r"\D", "", views)) == meme.views


def test_a_template_page_holds_id_and_picture(internet: Internet, fetch: Fetch) -> None:
    number = str(int("cactus", 36))
    page = Selector(fetch(internet.url("imgflip", f"/memetemplate/{number}")).text)
    assert page.css("#mtm-title::text").get() == "Lonely Cactus Meme Template"
    assert page.css("#mtm-subtitle::text").get("").startswith("also called: hug cactus, ")
    assert key_in(page.css("#mtm-img").attrib["src"]) == "cactus"
    assert page.css("#mtm-info p::text").getall()[:3] == [
        f"Template ID: {number}",
        "Format: jpg",
        "Dimensions: 420x500 px",
    ]


def test_search_finds_names_and_alternative_names_and_fails_past_page_250(internet: Internet, fetch: Fetch) -> None:
    def found(query: str) -> list[str]:
        page = Selector(fetch(internet.url("imgflip", f"/memesearch?q={query}")).text)
        return page.css("h3.mt-title a::text").getall()

    assert found("cactus") == ["Lonely Cactus"]
    assert found("professor+owl") == ["Lecture Owl"]
    assert found("zebra") == []
    assert fetch(internet.url("imgflip", "/memesearch?q=cat&page=250")).status == 200
    assert fetch(internet.url("imgflip", "/memesearch?q=cat&page=251")).status == 500


def test_the_api_lists_the_templates_with_id_size_and_boxes(
    internet: Internet, fetch: Fetch, truth: dict[str, ServedMeme], decode: Callable[[bytes], Image.Image]
) -> None:
    answer = json.loads(fetch(internet.url("imgflip_api", "/get_memes")).body)
    assert answer["success"] is True
    entries = answer["data"]["memes"]
    assert {entry["id"] for entry in entries} == {meme.template_id for meme in truth.values()}
    assert all(set(entry) == {"id", "name", "url", "width", "height", "box_count", "captions"} for entry in entries)
    for entry in entries:
        assert str(int(key_in(entry["url"]), 36)) == entry["id"]
        assert decode(fetch(entry["url"]).body).size == (entry["width"], entry["height"])
        boxes = {len(meme.boxes) for meme in truth.values() if meme.template_id == entry["id"] and not meme.flaw}
        assert boxes == {entry["box_count"]}


def test_the_old_api_escapes_slashes_and_has_no_caption_counts(fetch: Fetch) -> None:
    with Internet(memes=12, old_api=True) as old:
        answer = fetch(old.url("imgflip_api", "/get_memes"))
        assert rb"http:\/\/127.0.0.1" in answer.body
        assert "captions" not in json.loads(answer.body)["data"]["memes"][0]


def test_pictures_are_stable_jpegs_with_the_sha256_of_the_ground_truth(
    internet: Internet, fetch: Fetch, decode: Callable[[bytes], Image.Image]
) -> None:
    hashed = [meme for meme in internet.served(hashes=True) if meme.source == "imgflip"]
    assert len({meme.sha256 for meme in hashed}) > 460, "only a few captions are written twice"
    for meme in hashed[::16]:
        first, second = fetch(meme.image_url), fetch(meme.image_url)
        assert (first.status, first.headers["content-type"]) == (200, "image/jpeg")
        assert first.body == second.body
        assert hashlib.sha256(first.body).hexdigest() == meme.sha256
        assert decode(first.body).format == "JPEG"


def test_robots_txt_disallows_the_same_paths_as_the_real_one(internet: Internet, fetch: Fetch) -> None:
    lines = fetch(internet.url("imgflip", "/robots.txt")).text.splitlines()
    assert lines == ["User-agent: *", "Disallow: /orig/", "Disallow: /browse/"]


@pytest.mark.parametrize(
    "path",
    ["/i/nothere", "/i/..", "/i/%22", "/meme/No-Such", "/meme/1/Lonely-Cactus", "/memetemplate/x", "/nowhere", "/i/"],
)
def test_unknown_paths_are_a_404(internet: Internet, fetch: Fetch, path: str) -> None:
    assert fetch(internet.url("imgflip", path)).status == 404


def test_a_data_folder_is_served_like_our_own_corpus(
    data_folder: Path, fetch: Fetch, decode: Callable[[bytes], Image.Image]
) -> None:
    with Internet(data=data_folder, posts=10, pictures=10) as internet:
        memes = {meme.id: meme for meme in internet.served(hashes=True) if meme.source == "imgflip"}
        page = Selector(fetch(internet.url("imgflip", "/meme/Red-Fox?sort=latest")).text)
        alts = page.css("img.base-img::attr(alt)").getall()
        tail = " | image tagged in memes,red fox | made w/ Imgflip meme maker"
        assert alts == [
            f"Red-Fox & friends |  {text}{tail}"
            for text in ("", "line\nbreak; either | or", "X; ; Y", "A; B; C", "ONLY ONE", "TOP; BOTTOM")
        ]
        assert memes["imgflip:fox2"].boxes == ("A", "B; C")
        for meme in memes.values():
            answer = fetch(meme.image_url)
            assert hashlib.sha256(answer.body).hexdigest() == meme.sha256
        assert decode(fetch(memes["imgflip:fox1"].image_url).body).format == "PNG"
        assert fetch(internet.url("imgflip_images", "/fox1.jpg")).status == 404


def test_real_data_is_served_unchanged(real_data: Path, fetch: Fetch, decode: Callable[[bytes], Image.Image]) -> None:
    with Internet(data=real_data, memes=2100, posts=20, pictures=20) as internet:
        truth = {meme.id: meme for meme in internet.served() if meme.source == "imgflip"}
        assert len(truth) == 2100
        seen = 0
        for page in pages(fetch, internet.url("imgflip", "/meme/Finding-Neverland?sort=latest")):
            for unit in page.css(".base-unit"):
                if unit.css("img.base-img"):
                    check_unit(unit, truth, "6235864")
                    seen += 1
        assert seen == 30
        picture = fetch(next(iter(truth.values())).image_url)
        assert decode(picture.body).format == "JPEG"
