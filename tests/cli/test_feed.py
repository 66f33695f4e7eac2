"""`memeloom feed`: an operator reviews, removes and forgets."""

from datetime import UTC, datetime

import pytest

from memeloom.catalog.feed import FeedMeme, Publication, Sums, meme_id
from tests.cli.conftest import Memeloom, catalog

NOW = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.fixture
def memes(memeloom: Memeloom) -> list[str]:
    """Three memes: shown, waiting for review, and reported; the first is queued for an account."""
    facts = {"template": "1", "model": "m", "score": 1, "written_at": NOW}
    written = [FeedMeme.model_validate({"id": meme_id("1", [t]), "boxes": (t, "\x1b[31m"), **facts}) for t in "abc"]
    with catalog() as documents:
        documents.put_feed(written)
        documents.set_feed_state(written[1].id, "review", "profanity: strong")
        documents.report_meme(written[2].id, "feed:a", "spam", NOW)
        documents.react(written[2].id, "feed:a", 1, NOW)
        documents.enqueue_posts([Publication(account="mastodon:x", meme=written[0].id, due_at=NOW)])
    return [each.id for each in written]


def test_an_operator_reviews_what_waits(memeloom: Memeloom, memes: list[str]) -> None:
    listed = memeloom("feed", "review").out
    assert [line.split("\t")[:2] for line in listed.splitlines()] == [
        [memes[1], "profanity: strong"],
        [memes[2], "reported by 1: spam"],
    ]
    assert "\x1b" not in listed
    assert memeloom("feed", "review", "--approve", memes[1], "--remove", memes[2]).code == 0
    assert memeloom("feed", "review").out == ""
    with catalog() as documents:
        states = {key: meme.state for key, meme in documents.feed_memes(memes).items()}
    assert states == dict(zip(memes, ("shown", "shown", "removed"), strict=True))


def test_a_removed_meme_is_not_posted(memeloom: Memeloom, memes: list[str]) -> None:
    done = memeloom("feed", "remove", memes[0], "--reason", "its subject asked")
    assert done.out == f"{memes[0]}\tremoved\t1 posts refused\n"
    assert not done.err
    with catalog() as documents:
        assert documents.feed_memes(memes[:1])[memes[0]].reason == "its subject asked"
        assert [post.state for post in documents.posts()] == ["refused"]


def test_what_is_posted_is_left_to_the_publisher(memeloom: Memeloom, memes: list[str]) -> None:
    with catalog() as documents:
        (post,) = documents.posts()
        documents.move_post(post, post.model_copy(update={"state": "posted", "post": "7"}))
    assert "memeloom publish run --send" in memeloom("feed", "remove", memes[0]).err


def test_a_person_is_forgotten(memeloom: Memeloom, memes: list[str]) -> None:
    assert memeloom("feed", "forget", "feed:a").out == "1 reactions deleted\n"
    with catalog() as documents:
        assert documents.sums(memes[2:]) == {memes[2]: Sums()}
        assert list(documents.reports()) == []


def test_old_memes_that_nobody_cares_about_are_deleted(memeloom: Memeloom, memes: list[str]) -> None:
    assert memeloom("feed", "prune", "--days", "100000").out == "0 memes deleted\n"
    memeloom("feed", "review", "--approve", memes[1])
    assert memeloom("feed", "prune", "--days", "1").out == "1 memes deleted\n"
    with catalog() as documents:
        assert documents.feed_memes(memes).keys() == {memes[0], memes[2]}


def test_an_unknown_meme_is_an_error(memeloom: Memeloom, memes: list[str]) -> None:
    for arguments in (("remove", "x"), ("review", "--approve", "x")):
        done = memeloom("feed", *arguments)
        assert done.code == 1
        assert "the feed has no meme 'x'" in done.err
