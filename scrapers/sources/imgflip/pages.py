"""Parsers of Imgflip's pages and its API, based on saved responses and public scrapers."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from urllib.parse import urljoin, urlsplit

from memeloom.scrapers.errors import LayoutChanged
from memeloom.scrapers.sources.imgflip.caption import Caption, parse_alt, split_boxes
from memeloom.scrapers.sources.imgflip.pictures import further_pictures, shown_address
from memeloom.scrapers.sources.tree import Element, Tree, attribute, below, joiner, read_page, text_of

SITE = "imgflip"

UNIT = ".base-unit"
UNIT_TITLE = ".base-unit-title"
UNIT_PICTURE = ".base-img"
UNIT_AUTHOR = ".u-username"
UNIT_STATS = ".base-view-count"
NEXT_PAGE = ".pager-next"
BLANK_LINK = ".meme-link"
ALT_NAMES = ".alt-names"

LIST_FRAME = "#mt-boxes-wrap"
LIST_BOX = ".mt-box"
LIST_TITLE = ".mt-title"
LIST_IMAGE = ".mt-img-wrap"

TEMPLATE_TITLE = "#mtm-title"
TEMPLATE_SUBTITLE = "#mtm-subtitle"
TEMPLATE_IMAGE = "#mtm-img"
TEMPLATE_FACTS = "#mtm-info"

MEME_PICTURES = ("#im", "#vid")
MEME_TITLE = "#img-title"
MEME_INFO = ".img-info"
MEME_NOTES = ".img-desc"
MEME_NSFW = ".img-nsfw"
MORE_PICTURES = ".img-added-imgs-msg"

# Text shown instead of a picture that requires a login.
_WALL = "not-safe-for-work"
_MEME_ADDRESS = re.compile(r"(?:https?:)?(?://[^/]*)?/(?:i|gif)/(?P<key>[0-9a-z]+)/?(?:[?#].*)?")
_IMAGE_PATH = re.compile(r"/(?:\d/)?(?P<key>[0-9a-z]{1,16})\.\w+$")
_AMOUNT = re.compile(r"(?<![\d,])(?P<number>\d[\d,]{0,24})\s*(?P<unit>view|upvote|vote)", re.IGNORECASE)
_ALSO_CALLED = re.compile(r"^\s*(?:also called|aka)\s*:?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ListedTemplate:
    """A template from the API, a template list or its own page; None where not stated.

    Attributes:
        id: Imgflip's number in decimal, which is the image key read in base 36.
        path: path of its memes, `/meme/<slug>`, or `/meme/<id>/<slug>` if it is not featured.
    """

    id: str
    name: str
    path: str | None = None
    image_url: str | None = None
    box_count: int | None = None
    alt_names: tuple[str, ...] = ()

    @property
    def slug(self) -> str:
        """Its name in URLs, or its id if no URL is known."""
        return self.path.rpartition("/")[2] if self.path else self.id


@dataclass(frozen=True, slots=True)
class PostedMeme:
    """A meme from a listing or its own page.

    Attributes:
        key: key of its page; further pictures of a page have `<key>-2`, `<key>-3` …
        image_url: the picture or animation (the GIF if the page names it, else the video); None if not shown.
        boxes: None if the page does not state a caption.
        over_18: True if marked as such, else None, because Imgflip has no opposite mark.
        several: its own page shows more pictures.
    """

    key: str
    page_url: str
    image_url: str | None
    title: str | None
    boxes: tuple[str, ...] | None
    author: str | None
    views: int | None
    votes: int | None
    over_18: bool | None = None
    several: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of a template's memes.

    Attributes:
        template_id, alt_names: of the page's template.
        skipped: number of units that cannot be parsed, by reason.
    """

    memes: tuple[PostedMeme, ...]
    next_url: str | None
    template_id: str | None
    alt_names: tuple[str, ...]
    skipped: Mapping[str, int] = field(default_factory=dict)


def template_id(image_url: str) -> str | None:
    """Return a template's number: the key in the URL of its blank picture, read in base 36; None if it has none."""
    try:
        match = _IMAGE_PATH.search(urlsplit(image_url).path)
    except ValueError:
        return None
    return str(int(match["key"], 36)) if match else None


def full_image(thumbnail_url: str) -> str:
    """Return the URL of a thumbnail's full picture (`/4/`, or `/2/` when animated)."""
    parts = urlsplit(thumbnail_url)
    return parts._replace(path=re.sub(r"/\d/(?=[0-9a-z]+\.\w+$)", "/", parts.path)).geturl()


def parse_api(body: str | bytes, url: str) -> tuple[ListedTemplate, ...]:
    """Parse the response of `get_memes`: templates, most popular first.

    Raises:
        LayoutChanged: not the API's JSON.
    """
    try:
        answer = json.loads(body)
        return tuple(
            ListedTemplate(
                id=str(entry["id"]),
                name=str(entry["name"]),
                image_url=urljoin(url, entry["url"]),
                box_count=int(entry["box_count"]),
            )
            for entry in answer["data"]["memes"]
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise LayoutChanged(SITE, "data.memes[]", url) from None


def parse_template_list(html: str, url: str) -> tuple[ListedTemplate, ...]:
    """Parse one page of `/memetemplates` or `/memesearch`.

    Raises:
        LayoutChanged: no container of the boxes, or none of the boxes can be parsed.
    """
    page = read_page(html)
    boxes = page.all(LIST_BOX)
    if page.first(LIST_FRAME) is None:
        raise LayoutChanged(SITE, LIST_FRAME, url)
    templates = tuple(template for box in boxes if (template := _listed_template(Tree(box), url)))
    if boxes and not templates:
        raise LayoutChanged(SITE, f"{LIST_TITLE}, {LIST_IMAGE}", url)
    return templates


def parse_template(html: str, url: str) -> ListedTemplate:
    """Parse a template's own page, `/memetemplate/<id>`.

    Raises:
        LayoutChanged: no title or no picture.
        ValueError: the picture's address cannot be parsed.
    """
    page = read_page(html)
    name, source = page.text(TEMPLATE_TITLE), attribute(page.first(TEMPLATE_IMAGE), "src")
    if not name:
        raise LayoutChanged(SITE, TEMPLATE_TITLE, url)
    if not source:
        raise LayoutChanged(SITE, TEMPLATE_IMAGE, url)
    facts = dict((text_of(line) or "").partition(":")[::2] for line in below(page.first(TEMPLATE_FACTS), "p"))
    image_url = urljoin(url, source)
    number = facts.get("Template ID", "").strip() or template_id(image_url)
    if not number:
        raise LayoutChanged(SITE, TEMPLATE_FACTS, url)
    name = name.removesuffix(" Template").removesuffix(" Meme")
    return ListedTemplate(number, name, None, image_url, None, _names(page.text(TEMPLATE_SUBTITLE)))


def parse_listing(
    html: str, url: str, box_counts: Mapping[str, int] = MappingProxyType({}), number: str | None = None
) -> Listing:
    """Parse one page of a template's memes, `/meme/<slug>`.

    Args:
        html: the page.
        url: its URL.
        box_counts: number of text boxes by template id, where known.
        number: the template's id, in case the page does not state it.

    Raises:
        LayoutChanged: neither memes nor the blank template, or none of the units can be parsed.
    """
    page = read_page(html)
    units, blank = page.all(UNIT), _blank(page)
    if not units and blank is None:
        raise LayoutChanged(SITE, f"{UNIT}, {BLANK_LINK}", url)
    source = attribute(blank, "src")
    number = (template_id(source) if source else None) or number
    box_count = box_counts.get(number or "")
    join = joiner(url)
    memes = [meme for unit in units if (meme := _listed_meme(Tree(unit), join, box_count))]
    if units and not memes:
        raise LayoutChanged(SITE, f"{UNIT_TITLE}, {UNIT_PICTURE}", url)
    unread = len(units) - len(memes)
    return Listing(
        tuple(memes), _next_url(page, url), number, _names(page.text(ALT_NAMES)),
        {"unreadable unit": unread} if unread else {},
    )  # fmt: skip


def parse_meme(html: str, url: str, box_count: int | None = None) -> tuple[PostedMeme, ...]:
    """Parse a meme's own page, `/i/<key>` or `/gif/<key>`. Returns its pictures; none if they require a login.

    The caption belongs to the first picture; the page states none for further ones.

    Raises:
        LayoutChanged: no picture, or not a meme's URL.
        ValueError: the picture's address cannot be parsed.
    """
    page = read_page(html)
    path, join = _MEME_ADDRESS.fullmatch(url), joiner(url)
    picture = next((found for name in MEME_PICTURES if (found := page.first(name)) is not None), None)
    address = shown_address(picture, join)
    if not path:
        raise LayoutChanged(SITE, "/i/", url)
    if not address and _WALL in (text_of(page.root) or "").lower():
        return ()
    if address == "":
        raise ValueError(f"the address of the picture at {url} cannot be parsed")
    if not address:
        raise LayoutChanged(SITE, ", ".join(MEME_PICTURES), url)
    title = page.text(MEME_TITLE)
    caption = parse_alt(attribute(picture, "alt") or "", title, box_count)
    notes = page.all(MEME_NOTES)
    boxes = split_boxes(text_of(notes[1]) or "", box_count) if len(notes) > 1 else caption.boxes if caption else None
    info = page.first(MEME_INFO)
    amounts = _amounts(text_of(info))
    further = tuple(further_pictures(page.first(MORE_PICTURES), join, address))
    first = PostedMeme(
        key=path["key"],
        page_url=url,
        image_url=address,
        title=title or (caption.title if caption else None),
        boxes=boxes,
        author=None if info is None else Tree(info).text(UNIT_AUTHOR),
        views=amounts.get("view"),
        votes=amounts.get("upvote", amounts.get("vote")),
        over_18=page.first(MEME_NSFW) is not None or None,
        several=bool(further),
    )
    return first, *(
        replace(first, key=f"{first.key}-{number}", image_url=address, boxes=None)
        for number, address in enumerate(further, start=2)
    )


def _listed_meme(unit: Tree, join: Callable[[str], str], box_count: int | None) -> PostedMeme | None:
    """Parse a unit of a listing; None without a URL, or with neither a picture nor the login notice."""
    links = (_MEME_ADDRESS.fullmatch(link.get("href", "")) for link in below(unit.root, "a"))
    link = next(filter(None, links), None)
    picture = unit.first(UNIT_PICTURE)
    address = shown_address(picture, join)
    walled = not address and _WALL in (text_of(unit.root) or "").lower()
    if not link or not (address or walled):
        return None
    title = unit.text(UNIT_TITLE)
    caption: Caption | None = parse_alt(attribute(picture, "alt") or "", title, box_count)
    amounts = _amounts(unit.text(UNIT_STATS))
    return PostedMeme(
        key=link["key"],
        page_url=join(link[0]),
        image_url=address,
        title=title or (caption.title if caption else None),
        boxes=caption.boxes if caption else None,
        author=unit.text(UNIT_AUTHOR),
        views=amounts.get("view"),
        votes=amounts.get("upvote", amounts.get("vote")),
        over_18=walled or None,
        several=unit.first(MORE_PICTURES) is not None,
    )


def _blank(page: Tree) -> Element | None:
    links = (link for link in page.all(BLANK_LINK) if link.get("href", "").startswith("/memetemplate/"))
    return next((image for link in links for image in link.iter("img")), None)


def _listed_template(box: Tree, url: str) -> ListedTemplate | None:
    title = next(below(box.first(LIST_TITLE), "a"), None)
    source = attribute(next(below(box.first(LIST_IMAGE), "img"), None), "src")
    name, href = text_of(title), attribute(title, "href") or ""
    number = template_id(source) if source else None
    image_url = joiner(url)(source) if source else ""
    if not (image_url and name and number and href.startswith("/meme/")):
        return None
    return ListedTemplate(number, name.removesuffix(" Meme"), href, full_image(image_url))


def _amounts(text: str | None) -> dict[str, int]:
    """Parse `1,234 views, 56 upvotes` into ``{"view": 1234, "upvote": 56}``."""
    return {match["unit"].lower(): int(match["number"].replace(",", "")) for match in _AMOUNT.finditer(text or "")}


def _names(text: str | None) -> tuple[str, ...]:
    names = _ALSO_CALLED.sub("", text or "").split(",")
    return tuple(name.strip() for name in names if name.strip())


def _next_url(page: Tree, url: str) -> str | None:
    href = attribute(page.first(NEXT_PAGE), "href")
    return joiner(url)(href) or None if href else None
