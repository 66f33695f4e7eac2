"""How right the page parsers are on what the sites really sent, against readings that share no code with them.

Each figure is the share of cases in which parser and reading agree. `BASELINE` holds the figures that were
reached; a parser that gets worse fails here. Without the saved responses the tests are skipped.
"""

import gzip
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from memeloom.scrapers.pages import imgflip, reddit
from memeloom.scrapers.pages.imgflip_caption import parse_alt

Figures: TypeAlias = Mapping[str, float]
SavedListing: TypeAlias = tuple[reddit.Listing, list[dict[str, Any]], str]

BASELINE: dict[str, dict[str, float]] = {
    "imgflip API": {
        "id": 1.0, "name": 1.0, "image address": 1.0, "box count": 1.0, "id from the image's address": 1.0,
    },
    "imgflip alt texts in a listing": {"found": 1.0, "title": 1.0, "boxes": 1.0, "image address": 1.0},
    "imgflip captions": {
        "title, when the page names it": 1.0, "title, when it does not": 0.9999,
        "boxes": 0.9862, "boxes, without the title": 0.986, "boxes, without the count": 1.0,
        "boxes that fit the template": 1.0, "no character lost": 1.0, "no more boxes than places": 1.0,
    },
    "reddit listings": {
        "posts counted": 1.0, "pictures found": 1.0, "pictures rightly found": 1.0, "title": 1.0, "score": 1.0,
        "not safe for work": 1.0, "time": 1.0, "author": 1.0, "page address": 1.0, "newest post": 1.0,
        "every post accounted for": 1.0, "posts that can be read": 1.0,
    },
    # GIFs count as links or videos there; they are taken for their first frame.
    "reddit's own hints": {"images taken": 1.0, "texts left": 1.0, "links left": 0.9769, "videos left": 0.9239},
}  # fmt: skip

# Of the 260,000 captions every twentieth is enough.
_EVERY = 20
_PICTURE = re.compile(r"https?://\S+\.(?:jpe?g|png|webp|gif|bmp)(?:\?\S*)?", re.IGNORECASE)


def share(agreed: Iterable[bool]) -> float:
    """The share of True, to four places."""
    answers = list(agreed)
    assert answers, "nothing was compared"
    return round(sum(answers) / len(answers), 4)


def check(what: str, figures: Figures) -> None:
    """Compare with the baseline, name by name."""
    known = BASELINE[what]
    table = "\n".join(f"  {name}: {figures[name]} (baseline {known.get(name)})" for name in figures)
    assert figures.keys() == known.keys(), f"{what}:\n{table}"
    worse = [name for name, figure in figures.items() if figure < known[name]]
    assert not worse, f"{what} got worse in {worse}:\n{table}"


@pytest.fixture(scope="module")
def listings(real_data: Path) -> list[SavedListing]:
    """Each saved listing as the parser reads it, its posts as they are, and the file's name in the manifest."""
    folder = real_data / "pages"
    found = []
    for path in sorted((folder / "reddit").glob("*/*.json")):
        answer = json.loads(path.read_bytes())
        if isinstance(answer, dict) and answer.get("kind") == "Listing":
            posts = [child["data"] for child in answer["data"]["children"] if child["kind"] == "t3"]
            page = reddit.parse_listing(path.read_bytes(), path.name)
            found.append((page, posts, str(path.relative_to(folder))))
    return found


class TestImgflip:
    @pytest.fixture
    def folder(self, real_data: Path) -> Path:
        return real_data / "pages" / "imgflip"

    def test_the_api(self, folder: Path) -> None:
        files = sorted(folder.glob("get_memes_*.json"))
        pairs = [
            (template, entry)
            for path in files
            for template, entry in zip(
                imgflip.parse_api(path.read_bytes(), "https://api.imgflip.com/get_memes"),
                json.loads(path.read_text())["data"]["memes"],
                strict=True,
            )
        ]
        check("imgflip API", {
            "id": share(template.id == entry["id"] for template, entry in pairs),
            "name": share(template.name == entry["name"] for template, entry in pairs),
            "image address": share(template.image_url == entry["url"] for template, entry in pairs),
            "box count": share(template.box_count == entry["box_count"] for template, entry in pairs),
            "id from the image's address": share(
                imgflip.template_id(entry["url"]) == entry["id"] for _, entry in pairs
            ),
        })  # fmt: skip

    def test_alt_texts_in_a_listing(self, folder: Path) -> None:
        saved = json.loads((folder / "alt_strings_real.json").read_text())
        # None of these holds a separator in its title or in a box: cutting at each of them is right.
        texts = [entry.get("alt") or entry["alt_tail"] for entry in saved]
        truth = [tuple(part.strip() for part in text.split(" | ")[:2]) for text in texts]
        keys = [f"a{n}" for n in range(len(texts))]
        units = "".join(
            f'<div class="base-unit"><h2 class="base-unit-title"><a href="/i/{key}">{html.escape(title)}</a></h2>'
            f'<img class="base-img" src="{entry["src"]}" alt="{html.escape(text)}"></div>'
            for key, entry, text, (title, _) in zip(keys, saved, texts, truth, strict=True)
        )
        memes = {meme.key: meme for meme in imgflip.parse_listing(units, "https://imgflip.com/meme/x").memes}
        check("imgflip alt texts in a listing", {
            "found": share(key in memes for key in keys),
            "title": share(memes[key].title == title for key, (title, _) in zip(keys, truth, strict=True)),
            "boxes": share(
                memes[key].boxes == tuple(caption.split("; ")) for key, (_, caption) in zip(keys, truth, strict=True)
            ),
            "image address": share(
                memes[key].image_url == f"https:{entry['src']}" for key, entry in zip(keys, saved, strict=True)
            ),
        })  # fmt: skip

    def test_captions(self, real_data: Path) -> None:
        """Real titles and boxes, written as the site writes them, against themselves.

        The set was cut at every `;` when it was made, so no box in it holds one: it shows what the template's
        count costs where authors added boxes of their own, and cannot show what it saves where a box holds a `; `.
        """
        answer = json.loads((real_data / "pages" / "imgflip" / "get_memes_ursreddy.json").read_text())
        counts = {re.sub(r"\W", "", entry["name"]): entry["box_count"] for entry in answer["data"]["memes"]}
        cases = []
        with gzip.open(real_data / "imgflip_captions.jsonl.gz", "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines):
                record = json.loads(line) if number % _EVERY == 0 else {}
                count = counts.get(re.sub(r"\W", "", record.get("template", "")))
                if count is not None:
                    boxes = tuple(text for box in record["boxes"] if (text := box.strip()))
                    title = (record["title"] or "").strip()
                    cases.append((title, boxes, count, _alt(title, boxes)))
        fits = [case for case in cases if len(case[1]) <= case[2]]
        check("imgflip captions", {
            "title, when the page names it": share(_caption(alt, title, n)[0] == title for title, _, n, alt in cases),
            "title, when it does not": share(_caption(alt, None, n)[0] == title for title, _, n, alt in cases),
            "boxes": share(_caption(alt, title, n)[1] == boxes for title, boxes, n, alt in cases),
            "boxes, without the title": share(_caption(alt, None, n)[1] == boxes for _, boxes, n, alt in cases),
            "boxes, without the count": share(_caption(alt, title, None)[1] == boxes for title, boxes, _, alt in cases),
            "boxes that fit the template": share(_caption(alt, title, n)[1] == boxes for title, boxes, n, alt in fits),
            "no character lost": share(
                "; ".join(_caption(alt, title, n)[1]) == "; ".join(boxes) for title, boxes, n, alt in cases
            ),
            "no more boxes than places": share(len(_caption(alt, title, n)[1]) <= n for title, _, n, alt in cases),
        })  # fmt: skip


class TestReddit:
    def test_listings(self, real_data: Path, listings: list[SavedListing]) -> None:
        counted = {row["file"]: row.get("n_t3") for row in json.loads((real_data / "pages/manifest.json").read_text())}
        pairs = []
        for page, posts, _ in listings:
            known = {post["id"]: post for post in _with_parents(posts)}
            pairs += [(image, known[image.id.partition("_")[0]]) for image in page.images]
        expected = {name for _, posts, _ in listings for post in posts for name in _pictures(post)}
        found = {image.id for image, _ in pairs}
        with_posts = [(page, posts) for page, posts, _ in listings if posts]
        # Only counts of listings that hold no posts below their children can be compared with the manifest's.
        flat = [(page, name) for page, posts, name in listings if len(list(_with_parents(posts))) == len(posts)]

        def of_post(check_one: Callable[[reddit.PostedImage, dict[str, Any]], bool]) -> float:
            return share(check_one(image, post) for image, post in pairs)

        check("reddit listings", {
            "posts counted": share(page.posts == counted[name] for page, name in flat),
            "pictures found": share(name in found for name in expected),
            "pictures rightly found": share(name in expected for name in found),
            "title": of_post(lambda image, post: image.title == html.unescape(post["title"])),
            "score": of_post(lambda image, post: image.score == post["score"]),
            "not safe for work": of_post(lambda image, post: image.over_18 == post["over_18"]),
            "time": of_post(lambda image, post: image.posted_at == datetime.fromtimestamp(post["created_utc"], UTC)),
            "author": of_post(lambda image, post: image.author == post["author"]),
            "page address": of_post(lambda image, post: image.page_url.endswith(f".reddit.com{post['permalink']}")),
            "newest post": share(
                page.newest == max(posts, key=lambda post: post["created_utc"])["name"] for page, posts in with_posts
            ),
            "every post accounted for": share(
                len({image.id.partition("_")[0] for image in page.images}) <= page.posts
                and page.posts <= len(page.images) + sum(page.skipped.values())
                for page, _ in with_posts
            ),
            "posts that can be read": round(1 - share(reddit.UNREADABLE in page.skipped for page, *_ in listings), 4),
        })  # fmt: skip

    def test_hints(self, listings: list[SavedListing]) -> None:
        """What Reddit itself calls a post (a third of them, and never asked by the parser)."""
        hints: dict[str, list[bool]] = {"image": [], "self": [], "link": [], "video": []}
        for page, posts, _ in listings:
            taken = {image.id.partition("_")[0] for image in page.images}
            for post in posts:
                hint = str(post.get("post_hint", "")).rpartition(":")[2]
                if hint in hints and post["author"] != "[deleted]" and not post.get("crosspost_parent_list"):
                    hints[hint].append(post["id"] in taken)
        check("reddit's own hints", {
            "images taken": share(hints["image"]),
            "texts left": round(1 - share(hints["self"]), 4),
            "links left": round(1 - share(hints["link"]), 4),
            "videos left": round(1 - share(hints["video"]), 4),
        })  # fmt: skip


def _alt(title: str, boxes: tuple[str, ...]) -> str:
    return f"{title} |  {'; '.join(boxes)} | image tagged in memes,a tag | made w/ Imgflip meme maker"


def _caption(alt: str, title: str | None, count: int | None) -> tuple[str, tuple[str, ...]]:
    found = parse_alt(alt, title, count)
    return (found.title, found.boxes) if found else ("", ())


def _with_parents(posts: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for post in posts:
        yield post
        yield from _with_parents(post.get("crosspost_parent_list") or [])


def _pictures(post: dict[str, Any]) -> list[str]:
    """The ids that a post's pictures should have, read as plainly as can be."""
    chain = [post]
    while chain[-1].get("crosspost_parent_list"):
        chain.append(chain[-1]["crosspost_parent_list"][0])
    if any(one["author"] == "[deleted]" or one.get("removed_by_category") or one.get("banned_by") for one in chain):
        return []
    last = chain[-1]
    if last.get("is_gallery"):
        items = enumerate(last["gallery_data"]["items"], 1)
        return [
            f"{last['id']}_{n}" for n, item in items if last["media_metadata"][item["media_id"]]["status"] == "valid"
        ]
    imgur_gif = re.fullmatch(r"https?://(?:\w+\.)?imgur\.com/\w+\.gifv", last["url"])
    return [last["id"]] if not last["is_self"] and (_PICTURE.fullmatch(last["url"]) or imgur_gif) else []
