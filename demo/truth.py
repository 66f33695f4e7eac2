"""The ground truth: every meme that the miniature internet serves, to check a crawl against."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from memeloom.demo.bing_site import thumbnail_path
from memeloom.demo.context import Host
from memeloom.demo.corpus import Kind, Post
from memeloom.demo.image_host import image_results
from memeloom.demo.live_corpus import LiveCorpus
from memeloom.demo.options import Options
from memeloom.demo.pictures import PictureRenderer
from memeloom.demo.reddit_posts import SITE, RedditPosts, picture_address


@dataclass(frozen=True, slots=True)
class ServedMeme:
    """One meme as its site serves it.

    id: as memeloom should name it. source: ``imgflip``, ``reddit`` or ``images``.
    template_id, template_slug: of the picture it was drawn on; only Imgflip says so.
    boxes: what the page states, empty boxes left out, the template's last box holding what is too many.
        On the other sites the caption stands in the picture only, and these are the texts drawn there.
    score, views: as the page states them; None if it does not.
    over_18: True if it is marked as not safe for work. Imgflip shows the picture of such a meme on its own
        page only, and marks nothing else.
    sha256: of the picture's bytes, if asked for; of the thumbnail's if the picture is dead.
    flaw: what a filter should find wrong with the caption, if it was made so.
    kind: ``animated`` ones are GIFs (`image_url` is the GIF's, its first frame is the meme); memes of ``several``
        pictures show `more_images` on their own page, with `more_sha256`.
    dead: the picture answers 404, and only `thumbnail_url` is left. Searches state a thumbnail for each.
    late: published after the start.
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
    kind: Kind = "still"
    more_images: tuple[str, ...] = ()
    more_sha256: tuple[str, ...] = ()
    dead: bool = False
    thumbnail_url: str | None = None
    late: bool = False


class Truth:
    """The memes that one miniature internet serves.

    hashes: also the sha256 of each picture, which draws them all, some hundreds a second.
    """

    def __init__(self, options: Options, addresses: Mapping[Host, str], *, hashes: bool) -> None:
        self._options = options
        self._urls = {host: f"http://{address}" for host, address in addresses.items()}
        self._hashes = hashes

    def memes(self, corpus: LiveCorpus, late_posts: Mapping[str, int]) -> Iterator[ServedMeme]:
        """Yield the memes of Imgflip by template, newest first, then those of Reddit and of the image searches.

        late_posts: how many posts were published on Reddit since the start, by subreddit.
        """
        renderer = PictureRenderer(corpus, quick=self._options.quick)
        for blank in corpus.blanks:
            for place in range(corpus.count(blank)):
                yield self._imgflip(corpus.post(blank, place), renderer)
        reddit_posts = RedditPosts(corpus, self._options)
        reddit_posts.publish(late_posts)
        yield from self._reddit(reddit_posts, renderer)
        yield from self._found(corpus, renderer)

    def _imgflip(self, post: Post, renderer: PictureRenderer) -> ServedMeme:
        images = self._urls["imgflip_images"]
        more = range(len(post.extra_keys))
        return ServedMeme(
            id=f"imgflip:{post.key}",
            source="imgflip",
            template_id=post.blank.id,
            template_slug=post.blank.slug,
            boxes=post.stated_boxes(),
            title=post.title,
            page_url=f"{self._urls['imgflip']}/i/{post.key}",
            image_url=f"{images}/{post.key}.{post.suffix}",
            score=post.votes or None,
            views=post.views or None,
            over_18=post.over_18 or None,
            sha256=_sha256(renderer.meme(post.blank, post.boxes, post.suffix)) if self._hashes else None,
            flaw=post.flaw,
            kind=post.kind,
            more_images=tuple(f"{images}/{key}.jpg" for key in post.extra_keys),
            more_sha256=tuple(
                _sha256(renderer.meme(post.blank, post.extra_boxes(number))) for number in more if self._hashes
            ),
            late=post.late,
        )

    def _reddit(self, reddit_posts: RedditPosts, renderer: PictureRenderer) -> Iterator[ServedMeme]:
        """Yield the pictures of posts that were not removed; a crosspost repeats its parent and is left out."""
        for post in (post for posts in reddit_posts.posts.values() for post in posts):
            if post.kind in ("removed", "deleted"):
                continue
            several = post.kind in ("gallery", "album")
            for number, (drawn, state) in enumerate(zip(post.pictures, post.states, strict=True), start=1):
                if state != "valid":
                    continue
                yield ServedMeme(
                    id=f"reddit:{post.id}_{number}" if several else f"reddit:{post.id}",
                    source="reddit",
                    template_id=drawn.blank.id,
                    template_slug=drawn.blank.slug,
                    boxes=drawn.boxes,
                    title=post.title,
                    page_url=f"{SITE}{post.permalink}",
                    image_url=picture_address(drawn, self._urls["reddit_images"], preview=several),
                    score=post.score,
                    over_18=post.over_18,
                    sha256=_sha256(renderer.meme(drawn.blank, drawn.boxes, drawn.suffix)) if self._hashes else None,
                    kind="animated" if drawn.suffix == "gif" else "still",
                    late=post.late,
                )

    def _found(self, corpus: LiveCorpus, renderer: PictureRenderer) -> Iterator[ServedMeme]:
        for found in image_results(corpus, self._options):
            address = self._urls["pictures"] + found.path
            draw = renderer.thumbnail if found.dead else renderer.meme
            yield ServedMeme(
                id=f"images:{hashlib.sha256(address.encode()).hexdigest()[:24]}",
                source="images",
                template_id=found.blank.id,
                template_slug=found.blank.slug,
                boxes=found.boxes,
                title=None,
                page_url=found.page,
                image_url=address,
                sha256=_sha256(draw(found.blank, found.boxes)) if self._hashes else None,
                dead=found.dead,
                thumbnail_url=self._urls["bing"] + thumbnail_path(found),
            )


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
