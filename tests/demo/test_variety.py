"""With variety on: GIFs, memes of several pictures, memes not safe for work, hard captions, large galleries."""

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import cv2
import pytest
from parsel import Selector
from PIL import Image

from memeloom.demo.internet import Internet
from memeloom.demo.truth import ServedMeme
from tests.demo.reddit_client import all_posts, bearer_of

Fetch: TypeAlias = Callable[..., Any]
Decode: TypeAlias = Callable[[bytes], Image.Image]


@pytest.fixture(scope="module")
def various() -> Iterator[Internet]:
    with Internet(memes=156, posts=45, pictures=40, variety=True) as running:
        yield running


@pytest.fixture(scope="module")
def truth(various: Internet) -> list[ServedMeme]:
    return list(various.served(hashes=True))


def of_imgflip(truth: list[ServedMeme], kind: str) -> list[ServedMeme]:
    return [meme for meme in truth if meme.source == "imgflip" and meme.kind == kind]


def unit_of(various: Internet, fetch: Fetch, meme: ServedMeme) -> Selector:
    """The meme's unit in its template's listing."""
    key = meme.id.removeprefix("imgflip:")
    page = Selector(fetch(various.url("imgflip", f"/meme/{meme.template_id}/{meme.template_slug}?sort=latest")).text)
    return next(unit for unit in page.css(".base-unit") if unit.css(f'a[href="/i/{key}"]'))


def test_every_kind_occurs_and_most_memes_are_plain(truth: list[ServedMeme]) -> None:
    memes = [meme for meme in truth if meme.source == "imgflip"]
    assert len({meme.id for meme in truth}) == len(truth)
    assert len(memes) == 156
    assert len(of_imgflip(truth, "animated")) == len(of_imgflip(truth, "several")) == 12
    assert len([meme for meme in memes if meme.over_18]) == 12
    assert len({meme.template_id for meme in of_imgflip(truth, "animated")}) == 12


def test_a_gif_is_animated_and_a_video_in_its_listing(
    various: Internet, fetch: Fetch, truth: list[ServedMeme], decode: Decode
) -> None:
    for meme in of_imgflip(truth, "animated")[:3]:
        film = unit_of(various, fetch, meme).css("video.base-img")
        assert f"http:{film.attrib['data-src']}" == meme.image_url
        assert meme.image_url.endswith(".gif")
        answer = fetch(meme.image_url)
        assert (answer.headers["content-type"], hashlib.sha256(answer.body).hexdigest()) == ("image/gif", meme.sha256)
        picture = decode(answer.body)
        assert (picture.format, getattr(picture, "n_frames", 1)) == ("GIF", 4)
        poster = fetch(f"http:{film.attrib['poster']}")
        assert decode(poster.body).format == "JPEG"


def test_a_gif_is_also_served_as_mp4(various: Internet, fetch: Fetch, truth: list[ServedMeme], tmp_path: Any) -> None:
    meme = of_imgflip(truth, "animated")[0]
    source = unit_of(various, fetch, meme).css("video.base-img source").attrib
    answer = fetch(f"http:{source['src']}")
    assert source["type"] == answer.headers["content-type"] == "video/mp4"
    (tmp_path / "film.mp4").write_bytes(answer.body)
    film = cv2.VideoCapture(str(tmp_path / "film.mp4"))
    frames = 0
    while film.read()[0]:
        frames += 1
    assert frames == 8


def test_the_caption_of_a_gif_is_on_its_own_page_only(various: Internet, fetch: Fetch, truth: list[ServedMeme]) -> None:
    meme = of_imgflip(truth, "animated")[0]
    assert meme.boxes[0] not in unit_of(various, fetch, meme).get()
    page = Selector(fetch(meme.page_url).text)
    assert f"http:{page.css('video#vid').attrib['data-src']}" == meme.image_url
    assert page.css(".img-desc")[1].xpath("string()").get() == "; ".join(meme.boxes)


def test_memes_of_several_pictures_show_all_of_them_on_their_page(
    various: Internet, fetch: Fetch, truth: list[ServedMeme]
) -> None:
    meme = of_imgflip(truth, "several")[0]
    assert unit_of(various, fetch, meme).css("img.base-img")
    page = Selector(fetch(meme.page_url).text)
    assert page.css(".img-added-imgs-msg")
    shown = [f"http:{address}" for address in page.css("#img-main img::attr(src)").getall()]
    assert shown == [meme.image_url, *meme.more_images]
    assert len(shown) == 3
    hashes = [hashlib.sha256(fetch(address).body).hexdigest() for address in shown]
    assert hashes == [meme.sha256, *meme.more_sha256]
    assert len(set(hashes)) == 3


def test_memes_not_safe_for_work_are_shown_only_on_their_own_page(
    various: Internet, fetch: Fetch, truth: list[ServedMeme]
) -> None:
    meme = next(meme for meme in truth if meme.source == "imgflip" and meme.over_18)
    unit = unit_of(various, fetch, meme)
    assert "not-safe-for-work images" in unit.get()
    assert not unit.css("img, video")
    page = Selector(fetch(meme.page_url).text)
    assert page.css(".img-nsfw::text").get() == "NSFW"
    assert f"http:{page.css('#im').attrib['src']}" == meme.image_url
    assert ",nsfw | made w/" in page.css("#im").attrib["alt"]
    other = Selector(fetch(of_imgflip(truth, "still")[0].page_url).text)
    assert not other.css(".img-nsfw")


def test_hard_captions_contain_separators(truth: list[ServedMeme]) -> None:
    hard = [meme for meme in truth if meme.source == "imgflip" and meme.boxes[-1].endswith("bye")]
    assert len(hard) > 6
    for meme in hard:
        assert {";", "|", "\n"} < set("".join(meme.boxes))
        assert "; " in meme.boxes[-1]
        assert not any("; " in box for box in meme.boxes[:-1]), "nothing on the page would tell these boxes apart"


def test_galleries_have_an_order_and_pictures_missing_for_each_reason(
    various: Internet, fetch: Fetch, truth: list[ServedMeme]
) -> None:
    posts = list(all_posts(various, fetch, bearer_of(various, fetch), "memes"))
    album = next(post for post in posts if post.get("is_gallery") and len(post["gallery_data"]["items"]) == 6)
    names = [item["media_id"] for item in album["gallery_data"]["items"]]
    metadata = album["media_metadata"]
    assert [name for name in names if name in metadata] == list(metadata)[::-1], "the metadata's order is no order"
    assert [metadata.get(name, {}).get("status") for name in names] == [
        "valid", None, "valid", "failed", "failed", "valid",
    ]  # fmt: skip
    assert [item.get("is_deleted", False) for item in album["gallery_data"]["items"]] == [
        False, True, False, False, True, False,
    ]  # fmt: skip
    ours = {meme.id: meme.image_url for meme in truth if meme.id.startswith(f"reddit:{album['id']}_")}
    assert ours == {f"reddit:{album['id']}_{place}": metadata[names[place - 1]]["s"]["u"] for place in (1, 3, 6)}


def test_a_post_can_be_a_gif(various: Internet, fetch: Fetch, truth: list[ServedMeme], decode: Decode) -> None:
    moving = [meme for meme in truth if meme.source == "reddit" and meme.kind == "animated"]
    assert len(moving) >= 4
    assert decode(fetch(moving[0].image_url).body).format == "GIF"
    assert hashlib.sha256(fetch(moving[0].image_url).body).hexdigest() == moving[0].sha256


def test_some_search_results_have_only_a_thumbnail_left(
    various: Internet, fetch: Fetch, truth: list[ServedMeme], decode: Decode
) -> None:
    found = [meme for meme in truth if meme.source == "images"]
    dead = [meme for meme in found if meme.dead]
    assert 3 <= len(dead) < len(found) / 4
    for meme in dead:
        assert fetch(meme.image_url).status == 404
        thumbnail = fetch(meme.thumbnail_url).body
        assert decode(thumbnail).width == 250 or decode(thumbnail).height > 250
        assert hashlib.sha256(thumbnail).hexdigest() == meme.sha256
    alive = next(meme for meme in found if not meme.dead)
    assert hashlib.sha256(fetch(alive.image_url).body).hexdigest() == alive.sha256
    page = Selector(fetch(various.url("bing", "/images/search?q=memes")).text)
    results = [json.loads(text) for text in page.css("a.iusc::attr(m)").getall()]
    known = {meme.image_url: meme.thumbnail_url for meme in found}
    assert all(known[result["murl"]] == result["turl"] for result in results)


def test_without_variety_all_memes_are_plain(internet: Internet) -> None:
    memes = list(internet.served())
    assert {meme.kind for meme in memes} == {"still"}
    assert not any(meme.dead or meme.late or meme.more_images for meme in memes)
    assert not any(meme.over_18 for meme in memes if meme.source == "imgflip")
