"""A person's decisions about memes of the feed: what waits for one, approval, and removal everywhere."""

from collections.abc import Iterator
from dataclasses import dataclass

from memeloom.catalog.documents import DocumentStore, batched
from memeloom.catalog.feed import FeedMeme, PostState, Publication
from memeloom.configs.errors import MemeloomError

_BATCH = 500


@dataclass(frozen=True, slots=True)
class Waiting:
    """A meme that a person should look at, and why."""

    meme: FeedMeme
    why: str


def waiting(documents: DocumentStore) -> Iterator[Waiting]:
    """Yield memes that are not shown until a person has looked at them, then shown ones that people reported."""
    for meme in documents.scan_feed("review"):
        yield Waiting(meme, meme.reason or "waits for review")
    for batch in batched(documents.reports(), _BATCH):
        memes = documents.feed_memes([report.meme for report in batch])
        for report in batch:
            reported = memes.get(report.meme)
            if reported is not None and reported.state == "shown":
                yield Waiting(reported, f"reported by {report.persons}: {', '.join(report.reasons)}")


def approve(documents: DocumentStore, meme: str) -> FeedMeme:
    """Show a meme and drop its reports. Returns it; a removed one stays removed. Raises MemeloomError if unknown."""
    known = documents.set_feed_state(meme, "shown")
    if known is None:
        raise _unknown(meme)
    if known.state == "shown":
        documents.drop_reports(meme)
    return known


def take_down(documents: DocumentStore, meme: str, reason: str) -> dict[PostState, int]:
    """Remove a meme for good, and refuse its posts that nobody has begun to send.

    `memeloom publish run` looks up the others and deletes them. Repeat it if it was killed.

    Returns:
        The number of its posts by state.

    Raises:
        MemeloomError: the meme is unknown.
    """
    if documents.set_feed_state(meme, "removed", reason) is None:
        raise _unknown(meme)
    posts = list(documents.posts(meme=meme))
    while unsent := [post for post in posts if _is_unsent(post)]:
        for post in unsent:
            documents.move_post(post, post.model_copy(update={"state": "refused", "reason": f"removed: {reason}"}))
        posts = list(documents.posts(meme=meme))
    states: dict[PostState, int] = {}
    for post in posts:
        states[post.state] = states.get(post.state, 0) + 1
    return states


def _is_unsent(post: Publication) -> bool:
    # An attempt that was begun may have got through.
    return post.state in ("queued", "approved") and post.begun_at is None


def _unknown(meme: str) -> MemeloomError:
    return MemeloomError(f"the feed has no meme {meme!r}")
