"""The ground truth: what the miniature internet offers, meme by meme, to check a crawl against."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from demo.corpus import Corpus
from demo.studio import Studio
from demo.world import Host


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


def imgflip_memes(corpus: Corpus, addresses: Mapping[Host, str], *, hashes: bool) -> Iterator[ServedMeme]:
    """The memes of Imgflip, by template and newest first."""
    studio = Studio(corpus)
    for blank in corpus.blanks:
        for place in range(corpus.count(blank)):
            post = corpus.post(blank, place)
            picture = studio.meme(blank, post.boxes, post.suffix) if hashes else None
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
                sha256=hashlib.sha256(picture).hexdigest() if picture else None,
                flaw=post.flaw,
            )
