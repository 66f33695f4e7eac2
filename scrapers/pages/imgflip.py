"""Imgflip's pages and its templates API, as saved responses and public scrapers show them."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from urllib.parse import urljoin, urlsplit

from parsel import Selector, SelectorList

from scrapers.pages.imgflip_caption import Caption, parse_alt, split_boxes
from scrapers.pages.layout import LayoutChanged

SITE = "imgflip"

UNIT = ".base-unit"
UNIT_LINK = 'h2.base-unit-title a[href^="/i/"], a.base-img-link[href^="/i/"]'
UNIT_TITLE = "h2.base-unit-title a"
UNIT_IMAGE = "img.base-img"
UNIT_VIDEO = "video.base-img"
UNIT_AUTHOR = ".base-author a.u-username"
UNIT_STATS = ".base-view-count"
NEXT_PAGE = ".pager a.pager-next"
BLANK_LINK = 'a.meme-link[href^="/memetemplate/"]'
ALT_NAMES = ".alt-names"

LIST_FRAME = "#mt-boxes-wrap"
LIST_BOX = "#mt-boxes-wrap .mt-box"
LIST_TITLE = "h3.mt-title a"
LIST_IMAGE = ".mt-img-wrap img"

TEMPLATE_TITLE = "#mtm-title"
TEMPLATE_SUBTITLE = "#mtm-subtitle"
TEMPLATE_IMAGE = "#mtm-img"
TEMPLATE_FACTS = "#mtm-info p"

MEME_IMAGE = "#im"
MEME_TITLE = "#img-title"
MEME_VIEWS = ".img-info .img-views"
MEME_VOTES = ".img-info .img-votes"
MEME_AUTHOR = ".img-info .u-username"
MEME_NOTES = ".img-desc"
MEME_EXTRA_IMAGES = ".img-added-imgs-msg"

_MEME_PATH = re.compile(r"^/i/(?P<key>[0-9a-z]+)$")
_IMAGE_PATH = re.compile(r"/(?:\d/)?(?P<key>[0-9a-z]+)\.\w+$")
_AMOUNT = re.compile(r"(?P<number>\d[\d,]*)\s*(?P<unit>view|upvote|vote|comment)", re.IGNORECASE)
_ALSO_CALLED = re.compile(r"^\s*(?:also called|aka)\s*:?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ListedTemplate:
    """A template as the API, a template list or its own page knows it; None is not known there.

    id: Imgflip's number in decimal, which is the image key read in base 36.
    path: of its memes, `/meme/<slug>`, or `/meme/<id>/<slug>` while it is not featured.
    """

    id: str
    name: str
    path: str | None = None
    image_url: str | None = None
    box_count: int | None = None
    alt_names: tuple[str, ...] = ()

    @property
    def slug(self) -> str:
        """Its name in addresses; its id if no address is known."""
        return self.path.rpartition("/")[2] if self.path else self.id


@dataclass(frozen=True, slots=True)
class TemplateList:
    """One page of the template list, and the address of the one after it."""

    templates: tuple[ListedTemplate, ...]
    next_url: str | None


@dataclass(frozen=True, slots=True)
class PostedMeme:
    """A meme as a listing or its own page shows it. `boxes` None: the page does not state a caption."""

    key: str
    page_url: str
    image_url: str
    title: str | None
    boxes: tuple[str, ...] | None
    author: str | None
    views: int | None
    votes: int | None


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of a template's memes.

    template_id, alt_names: of the template that the page is about.
    skipped: units that are no still picture, by reason.
    """

    memes: tuple[PostedMeme, ...]
    next_url: str | None
    template_id: str | None
    alt_names: tuple[str, ...]
    skipped: Mapping[str, int] = field(default_factory=dict)


def template_id(image_url: str) -> str | None:
    """The template's number, from the address of its blank picture: the key there, read in base 36."""
    match = _IMAGE_PATH.search(urlsplit(image_url).path)
    return str(int(match["key"], 36)) if match else None


def full_image(thumbnail_url: str) -> str:
    """The address of the whole picture, from that of its thumbnail (`/4/`, or `/2/` when animated)."""
    parts = urlsplit(thumbnail_url)
    return parts._replace(path=re.sub(r"/\d/(?=[0-9a-z]+\.\w+$)", "/", parts.path)).geturl()


def parse_api(body: str | bytes, url: str) -> tuple[ListedTemplate, ...]:
    """The templates of `get_memes`, most popular first.

    Raises:
        LayoutChanged: not the JSON that the API has always sent.
    """
    try:
        answer = json.loads(body)
        return tuple(
            ListedTemplate(
                id=str(entry["id"]),
                name=entry["name"],
                image_url=urljoin(url, entry["url"]),
                box_count=int(entry["box_count"]),
            )
            for entry in answer["data"]["memes"]
        )
    except (ValueError, KeyError, TypeError):
        raise LayoutChanged(SITE, "data.memes[]", url) from None


def parse_template_list(html: str, url: str) -> TemplateList:
    """One page of `/memetemplates` or `/memesearch`.

    Raises:
        LayoutChanged: no frame around the boxes, or boxes of which none can be read.
    """
    page = Selector(html)
    boxes = page.css(LIST_BOX)
    if not page.css(LIST_FRAME):
        raise LayoutChanged(SITE, LIST_FRAME, url)
    templates = tuple(template for box in boxes if (template := _listed_template(box, url)))
    if boxes and not templates:
        raise LayoutChanged(SITE, f"{LIST_TITLE}, {LIST_IMAGE}", url)
    return TemplateList(templates, _next_url(page, url))


def parse_template(html: str, url: str) -> ListedTemplate:
    """A template's own page, `/memetemplate/<id>`.

    Raises:
        LayoutChanged: no title or no picture.
    """
    page = Selector(html)
    name, source = _text(page, TEMPLATE_TITLE), page.css(TEMPLATE_IMAGE).attrib.get("src")
    if not name:
        raise LayoutChanged(SITE, TEMPLATE_TITLE, url)
    if not source:
        raise LayoutChanged(SITE, TEMPLATE_IMAGE, url)
    facts = dict(
        part.partition(":")[::2] for part in (_text(line, "*") or "" for line in page.css(TEMPLATE_FACTS)) if part
    )
    image_url = urljoin(url, source)
    number = facts.get("Template ID", "").strip() or template_id(image_url)
    if not number:
        raise LayoutChanged(SITE, TEMPLATE_FACTS, url)
    name = name.removesuffix(" Template").removesuffix(" Meme")
    return ListedTemplate(number, name, None, image_url, None, _names(_text(page, TEMPLATE_SUBTITLE)))


def parse_listing(
    html: str, url: str, box_counts: Mapping[str, int] = MappingProxyType({}), number: str | None = None
) -> Listing:
    """One page of a template's memes, `/meme/<slug>`.

    box_counts: text boxes by template id, as far as known.
    number: the template's id if the page should not name it.

    Raises:
        LayoutChanged: neither a meme nor the blank is there, or units of which none can be read.
    """
    page = Selector(html)
    units = page.css(UNIT)
    blank = page.css(BLANK_LINK).css("img")
    if not units and not blank:
        raise LayoutChanged(SITE, f"{UNIT}, {BLANK_LINK}", url)
    source = blank.attrib.get("src")
    number = (template_id(source) if source else None) or number
    box_count = box_counts.get(number or "")
    skipped: Counter[str] = Counter()
    memes = []
    for unit in units:
        if unit.css(UNIT_VIDEO):
            skipped["video"] += 1
        elif meme := _posted_meme(unit, url, box_count):
            memes.append(meme)
        else:
            skipped["unreadable unit"] += 1
    if units and skipped["unreadable unit"] == len(units):
        raise LayoutChanged(SITE, f"{UNIT_LINK}, {UNIT_IMAGE}", url)
    return Listing(tuple(memes), _next_url(page, url), number, _names(_text(page, ALT_NAMES)), skipped)


def parse_meme(html: str, url: str, box_count: int | None = None) -> PostedMeme | None:
    """A meme's own page, `/i/<key>`; None if it is a video or shows several pictures.

    Raises:
        LayoutChanged: no picture, or an address that is no meme's.
    """
    page = Selector(html)
    if page.css(MEME_EXTRA_IMAGES) or page.css(f"video{MEME_IMAGE}"):
        return None
    image, path = page.css(MEME_IMAGE), _MEME_PATH.match(urlsplit(url).path)
    source = image.attrib.get("src")
    if not source or not path:
        raise LayoutChanged(SITE, MEME_IMAGE, url)
    title = _text(page, MEME_TITLE)
    caption = parse_alt(image.attrib.get("alt", ""), title, box_count)
    notes = [_text(note, "*") or "" for note in page.css(MEME_NOTES)]
    boxes = split_boxes(notes[1], box_count) if len(notes) > 1 else caption.boxes if caption else None
    amounts = _amounts(f"{_text(page, MEME_VIEWS)} {_text(page, MEME_VOTES)}")
    return PostedMeme(
        path["key"], url, urljoin(url, source), title or (caption.title if caption else None),
        boxes, _text(page, MEME_AUTHOR), amounts.get("view"), amounts.get("upvote", amounts.get("vote")),
    )  # fmt: skip


def _posted_meme(unit: Selector, url: str, box_count: int | None) -> PostedMeme | None:
    href = unit.css(UNIT_LINK).attrib.get("href", "")
    image = unit.css(UNIT_IMAGE)
    source, path = image.attrib.get("src"), _MEME_PATH.match(urlsplit(href).path)
    if not source or not path:
        return None
    title = _text(unit, UNIT_TITLE)
    caption: Caption | None = parse_alt(image.attrib.get("alt", ""), title, box_count)
    amounts = _amounts(_text(unit, UNIT_STATS))
    return PostedMeme(
        key=path["key"],
        page_url=urljoin(url, href),
        image_url=urljoin(url, source),
        title=title or (caption.title if caption else None),
        boxes=caption.boxes if caption else None,
        author=_text(unit, UNIT_AUTHOR),
        views=amounts.get("view"),
        votes=amounts.get("upvote", amounts.get("vote")),
    )


def _listed_template(box: Selector, url: str) -> ListedTemplate | None:
    title, source = box.css(LIST_TITLE), box.css(LIST_IMAGE).attrib.get("src")
    name, href = _text(title, "*"), title.attrib.get("href", "")
    number = template_id(source) if source else None
    if not (source and name and number and href.startswith("/meme/")):
        return None
    return ListedTemplate(number, name.removesuffix(" Meme"), href, full_image(urljoin(url, source)))


def _amounts(text: str | None) -> dict[str, int]:
    """`1,234 views, 56 upvotes` as ``{"view": 1234, "upvote": 56}``."""
    return {match["unit"].lower(): int(match["number"].replace(",", "")) for match in _AMOUNT.finditer(text or "")}


def _names(text: str | None) -> tuple[str, ...]:
    names = _ALSO_CALLED.sub("", text or "").split(",")
    return tuple(name.strip() for name in names if name.strip())


def _next_url(page: Selector, url: str) -> str | None:
    href = page.css(NEXT_PAGE).attrib.get("href")
    return urljoin(url, href) if href else None


def _text(where: Selector | SelectorList[Selector], selector: str) -> str | None:
    """All text inside the first match, trimmed; None if there is no match or no text."""
    found = where if selector == "*" else where.css(selector)
    return "".join(found.xpath("string()").getall()[:1]).strip() or None
