"""The ground truth: what the miniature internet offers, meme by meme, to check a crawl against."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from demo.bing_site import found_pictures, picture_address
from demo.corpus import Blank, Corpus
from demo.reddit_posts import SITE, as_t3, make_submissions
from demo.studio import Studio
from demo.world import Host, Options


@dataclass(frozen=True, slots=True)
class ServedMeme:
    """One meme as its site offers it.

    id: as memeloom should name it. source: ``imgflip``, ``reddit`` or ``images``.
    template_id, template_slug: of the picture it was drawn on; only Imgflip says so.
    boxes: what the page states, empty boxes left out, the template's last box holding what is too many.
        On the other sites the caption stands in the picture only, and these are the texts drawn there.
    score, views: as the page states them; None if it does not.
    sha256: of the picture's bytes, if asked for.
    flaw: what a filter should find wrong with the caption, if it was made so.
    """

    id: str
    source: str
    template_id: str
    template_slug: str
    boxes: tuple[str, ...]
    title: str | None
    page_url: str
    image_url: str
    score: int | None = None
    views: int | None = None
    over_18: bool | None = None
    sha256: str | None = None
    flaw: str | None = None


def served_memes(
    corpus: Corpus, options: Options, addresses: Mapping[Host, str], *, hashes: bool
) -> Iterator[ServedMeme]:
    """The memes of all sites: Imgflip's by template and newest first, Reddit's, then the image search's."""
    studio = Studio(corpus) if hashes else None
    yield from _imgflip(corpus, addresses, studio)
    yield from _reddit(corpus, options, addresses, studio)
    yield from _image_search(corpus, options, addresses, studio)


def _imgflip(corpus: Corpus, addresses: Mapping[Host, str], studio: Studio | None) -> Iterator[ServedMeme]:
    for blank in corpus.blanks:
        for place in range(corpus.count(blank)):
            post = corpus.post(blank, place)
            yield ServedMeme(
                id=f"imgflip:{post.key}",
                source="imgflip",
                template_id=blank.id,
                template_slug=blank.slug,
                boxes=post.stated_boxes(),
                title=post.title,
                page_url=f"http://{addresses['imgflip']}/i/{post.key}",
                image_url=f"http://{addresses['imgflip_images']}/{post.key}.{post.suffix}",
                score=post.votes or None,
                views=post.views or None,
                sha256=_sha256(studio, blank, post.boxes, post.suffix),
                flaw=post.flaw,
            )


def _reddit(
    corpus: Corpus, options: Options, addresses: Mapping[Host, str], studio: Studio | None
) -> Iterator[ServedMeme]:
    """Pictures of posts that were not removed; a crosspost is its parent again, and so not told twice."""
    for posts in make_submissions(corpus, options.posts, options.seed).values():
        for post in posts:
            if post.kind not in ("image", "gallery"):
                continue
            data = as_t3(post, f"http://{addresses['reddit_images']}")
            for number, drawn in enumerate(post.pictures, start=1):
                address = data["url"]
                if post.kind == "gallery":
                    media = data["media_metadata"][drawn.name]
                    if media["status"] != "valid":
                        continue
                    address = media["s"]["u"]
                yield ServedMeme(
                    id=f"reddit:{post.id}_{number}" if post.kind == "gallery" else f"reddit:{post.id}",
                    source="reddit",
                    template_id=drawn.blank.id,
                    template_slug=drawn.blank.slug,
                    boxes=drawn.boxes,
                    title=post.title,
                    page_url=f"{SITE}{post.permalink}",
                    image_url=address,
                    score=post.score,
                    over_18=post.over_18,
                    sha256=_sha256(studio, drawn.blank, drawn.boxes),
                )


def _image_search(
    corpus: Corpus, options: Options, addresses: Mapping[Host, str], studio: Studio | None
) -> Iterator[ServedMeme]:
    for drawn in found_pictures(corpus, options.posts, options.pictures):
        address = picture_address(f"http://{addresses['pictures']}", drawn)
        yield ServedMeme(
            id=f"images:{hashlib.sha256(address.encode()).hexdigest()[:24]}",
            source="images",
            template_id=drawn.blank.id,
            template_slug=drawn.blank.slug,
            boxes=drawn.boxes,
            title=None,
            page_url=f"https://example.org/memes/{drawn.name}",
            image_url=address,
            sha256=_sha256(studio, drawn.blank, drawn.boxes),
        )


def _sha256(studio: Studio | None, blank: Blank, boxes: tuple[str, ...], suffix: str = "jpg") -> str | None:
    return hashlib.sha256(studio.meme(blank, boxes, suffix)).hexdigest() if studio else None
