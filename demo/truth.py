"""The ground truth: every meme that the miniature internet serves."""

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
    """A meme as its site serves it.

    id: the one that memeloom should assign. source: ``imgflip``, ``reddit`` or ``images``.
    template_id, template_slug: of its template; only Imgflip states them.
    boxes: texts that the page states, without empty boxes, surplus ones joined to the last; on other
    sites, those drawn in the picture.
    score, views: as the page states them, or None.
    over_18: marked as not safe for work. Imgflip shows its picture on its own page only, and marks nothing else.
    sha256: of the picture, if asked for; of the thumbnail if the picture is dead.
    flaw: the filter that should reject the caption, if it was made so.
    kind: ``animated`` memes are GIFs (`image_url` is the GIF's, its first frame the meme); those of ``several``
    pictures show `more_images` on their own page, with `more_sha256`.
    dead: the picture answers 404, and only `thumbnail_url` is left; searches state a thumbnail for each.
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
    """The memes of one miniature internet. hashes: also compute sha256, which draws some hundred pictures a second."""

    def __init__(self, options: Options, addresses: Mapping[Host, str], *, hashes: bool) -> None:
        self._options = options
        self._urls = {host: f"http://{address}" for host, address in addresses.items()}
        self._hashes = hashes

    def memes(self, corpus: LiveCorpus, late_posts: Mapping[str, int]) -> Iterator[ServedMeme]:
        """Yield Imgflip's memes by template, newest first, then those of Reddit and of the image searches.

        late_posts: number of posts published since the start, by subreddit.
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
        """Yield the pictures of posts that were not removed, without crossposts, which repeat their parent."""
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
