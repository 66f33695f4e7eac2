"""Imgflip's pages as HTML, modelled on saved pages and the selectors of public scrapers. Pure functions."""

from collections.abc import Sequence
from html import escape

from memeloom.catalog.records import TemplateBox
from memeloom.demo.corpus import Blank, Post

_HEAD = "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'><title>{title}</title></head><body>\n"


_EDITOR_WIDTH = 463  # pixels, of every picture in the editor
_WALL = "Only logged in users may see not-safe-for-work images."


def listing_page(blank: Blank, posts: Sequence[Post], images: str, next_href: str | None) -> str:
    """Return one page of a template's memes. `images` is the image host."""
    names = f'<div class="alt-names">also called: {escape(", ".join(blank.alt_names))}</div>' if blank.alt_names else ""
    units = [_unit(post, images) for post in posts]
    return (
        f"{_page_head(blank.name + ' Memes')}"
        f'<h1 id="mtm-title"><a href="/memetemplate/{blank.id}/{blank.slug}">{escape(blank.name)}</a></h1>\n{names}\n'
        f'<a class="meme-link" href="/memetemplate/{blank.id}/{blank.slug}">'
        f'<img class="shadow" src="//{images}/4/{blank.key}.jpg" alt="{escape(blank.name)}"></a>\n'
        f'<div id="base-left">\n{"".join(units)}{_pager(next_href)}</div></body></html>\n'
    )


def _unit(post: Post, images: str) -> str:
    author = ""
    if post.author:
        author = f'<div class="base-author">by <a class="u-username" href="/user/{post.author}">{post.author}</a></div>'
    return (
        '<div class="base-unit clearfix">'
        f'<h2 class="base-unit-title"><a href="/i/{post.key}">{escape(post.title)}</a></h2>'
        f'<div class="base-img-wrap-wrap"><div class="base-img-wrap"><a class="base-img-link" href="/i/{post.key}">'
        f"{_listed_picture(post, images)}</a></div></div>"
        f'<div class="base-info"><div class="base-view-count">{stats(post)}</div>{author}</div></div>\n'
    )


def _listed_picture(post: Post, images: str) -> str:
    """Return an entry of a listing: without caption for a GIF, without picture for a meme not safe for work."""
    if post.over_18:
        return f'<div class="base-nsfw">{_WALL}</div>'
    if post.kind == "animated":
        return _loop(post, images, 'class="base-img ctx-gif"')
    return f'<img class="base-img" src="//{images}/{post.key}.{post.suffix}" alt="{escape(post.alt)}">'


def _loop(post: Post, images: str, attributes: str) -> str:
    """Return a GIF as the site shows it: a video with its first frame as the poster."""
    address = f"//{images}/{post.key}"
    return (
        f'<video {attributes} data-src="{address}.gif" poster="{address}.jpg" muted loop playsinline>'
        f'<source src="{address}.mp4" type="video/mp4"></video>'
    )


def stats(post: Post) -> str:
    """Return `1,234 views, 56 upvotes, 7 comments`; zero counts are left out."""
    amounts = (_amount(post.views, "view"), _amount(post.votes, "upvote"), _amount(post.comments, "comment"))
    return ", ".join(amount for amount in amounts if amount)


def _amount(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}" if number else ""


def meme_page(post: Post, images: str) -> str:
    """Return a meme's own page; its second description is the caption. Memes not safe for work are shown and marked."""
    views, votes = _amount(post.views, "view"), _amount(post.votes, "upvote")
    author = f'<a class="u-username" href="/user/{post.author}">{post.author}</a>' if post.author else ""
    return (
        f'{_page_head(post.title)}<div id="img-main"><h1 id="img-title">{escape(post.title)}</h1>\n'
        f'<div class="img-info"><span class="img-views">{views}</span> <span class="img-votes">{votes}</span> '
        f"{author}</div>\n"
        f"{_shown_pictures(post, images)}\n"
        f'<div class="img-desc"><a href="{post.blank.path}">{escape(post.blank.name)}</a></div>\n'
        f'<div class="img-desc">{escape(post.text)}</div></div></body></html>\n'
    )


def _shown_pictures(post: Post, images: str) -> str:
    mark = '<div class="img-nsfw">NSFW</div>\n' if post.over_18 else ""
    if post.kind == "animated":
        return mark + _loop(post, images, 'id="vid"')
    first = f'<img id="im" src="//{images}/{post.key}.{post.suffix}" alt="{escape(post.alt)}">'
    extras = "".join(f'<img class="img-added" src="//{images}/{key}.jpg" alt="">' for key in post.extra_keys)
    if extras:
        extras = f'\n<div class="img-added-imgs-msg">EXTRA IMAGES ADDED: {len(post.extra_keys)}</div>{extras}'
    return f"{mark}{first}{extras}"


def template_list_page(title: str, blanks: Sequence[Blank], images: str, next_href: str | None) -> str:
    """Return a page of the template list or of search results."""
    boxes = "".join(
        f'<div class="mt-box"><h3 class="mt-title"><a href="{blank.path}">{escape(blank.name)}</a></h3>'
        f'<div class="mt-img-wrap"><a href="{blank.path}">'
        f'<img class="shadow" src="//{images}/4/{blank.key}.jpg" alt="{escape(blank.name)} Meme Template"></a></div>'
        f'<a class="mt-caption" href="/memegenerator/{blank.id}">Add Caption</a></div>\n'
        for blank in blanks
    )
    return f'{_page_head(title)}<div id="mt-boxes-wrap">\n{boxes}</div>{_pager(next_href)}</body></html>\n'


def template_page(blank: Blank, images: str, size: tuple[int, int], file_bytes: int) -> str:
    """Return a template's own page."""
    names = f'<h2 id="mtm-subtitle">also called: {escape(", ".join(blank.alt_names))}</h2>' if blank.alt_names else ""
    return (
        f'{_page_head(blank.name)}<h1 id="mtm-title">{escape(blank.name)} Meme Template</h1>\n{names}\n'
        f'<img id="mtm-img" src="//{images}/{blank.key}.jpg" alt="{escape(blank.name)} blank">\n'
        f'<div id="mtm-info"><p>Template ID: {blank.id}</p><p>Format: jpg</p>'
        f"<p>Dimensions: {size[0]}x{size[1]} px</p><p>Filesize: {max(1, file_bytes // 1024)} KB</p></div>"
        f'<a class="meme-link" href="{blank.path}">memes</a></body></html>\n'
    )


def editor_page(blank: Blank, images: str, size: tuple[int, int]) -> str:
    """Return a template's editor: its text boxes as style rules over the picture, the last one first."""
    width, height = size
    shown = _EDITOR_WIDTH * height / width
    boxes = "".join(
        f'<div class="drag-box" style="left: {box.x * _EDITOR_WIDTH:.1f}px; top: {box.y * shown:.1f}px; '
        f'width: {box.width * _EDITOR_WIDTH:.1f}px; height: {box.height * shown:.1f}px;{_rotation(box)}"></div>'
        for box in reversed(blank.boxes)
    )
    return (
        f'{_page_head(f"{blank.name} Meme Generator")}<h1 id="mtm-title">{escape(blank.name)} Meme Generator</h1>\n'
        f'<div class="mm-preview"><canvas class="mm-canv" width="{width}" height="{height}"></canvas>{boxes}</div>\n'
        f'<img class="mm-img" src="//{images}/4/{blank.key}.jpg" alt="{escape(blank.name)}"></body></html>\n'
    )


def _rotation(box: TemplateBox) -> str:
    return f" transform: rotate({box.angle % 360:g}deg);" if box.angle % 360 else ""


def _page_head(title: str) -> str:
    return _HEAD.format(title=escape(f"{title} - Imgflip"))


def _pager(next_href: str | None) -> str:
    if next_href is None:
        return '<div class="pager"></div>'
    return f'<div class="pager"><a class="pager-next l but" href="{escape(next_href)}">Next &gt;</a></div>'
