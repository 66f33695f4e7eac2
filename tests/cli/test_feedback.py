"""`memeloom feedback`: reactions become lines for training, and a comparison of models."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memeloom.catalog.feed import DISLIKE, LIKE, FeedMeme, meme_id
from memeloom.catalog.records import Meme, TemplateRef
from memeloom.train.feedback import read_feedback
from tests.cli.conftest import Memeloom, catalog, fill

START = datetime(2026, 1, 1, tzinfo=UTC)


def react(boxes: tuple[str, ...], likes: int, dislikes: int, *, arm: str = "one", state: str = "shown") -> None:
    """Put a meme on the feed, with reactions."""
    meme = FeedMeme(
        id=meme_id("doge", boxes), template="doge", boxes=boxes, model="m", arm=arm, score=0.1, written_at=START
    )
    with catalog() as documents:
        documents.put_feed([meme])
        for number in range(likes + dislikes):
            documents.react(meme.id, f"feed:{number}", LIKE if number < likes else DISLIKE, START)
        if state == "review":
            documents.set_feed_state(meme.id, "review", "reported")


def crawled(number: int, boxes: tuple[str, ...], votes: int | None) -> Meme:
    reference = TemplateRef(id="doge", slug="doge", name="Doge", known="page")
    posted = START + timedelta(minutes=number)
    return Meme(id=f"toy:{number}", source="toy", template=reference, boxes=boxes, score=votes, posted_at=posted)


def test_liked_captions_weigh_more_and_pairs_are_clearly_apart(memeloom: Memeloom, tmp_path: Path) -> None:
    react(("much", "wow"), 12, 1)
    react(("very", "so so"), 4, 4)
    react(("such", "no"), 1, 12)
    react(("nobody", "reacted"), 0, 0)
    react(("waits for", "review"), 20, 0, state="review")
    found = memeloom("feedback", "export", "feedback")
    assert found.code == 0, found.err
    read = read_feedback(tmp_path / "feedback")
    weights = {caption.boxes: (caption.weight, caption.new) for caption in read.captions}
    assert weights == {("much", "wow"): (4, True), ("very", "so so"): (1, False), ("such", "no"): (0.25, False)}
    pairs = {(pair.better, pair.worse) for pair in read.pairs}
    assert (("much", "wow"), ("such", "no")) in pairs
    assert all(better == ("much", "wow") or worse == ("such", "no") for better, worse in pairs)


def test_an_export_replaces_the_one_before_and_nothing_else(memeloom: Memeloom, tmp_path: Path) -> None:
    react(("much", "wow"), 3, 0)
    for likes in (3, 9):
        react(("much", "wow"), likes, 0)
        assert memeloom("feedback", "export", "feedback").code == 0
    assert read_feedback(tmp_path / "feedback").captions[0].weight == 4
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    refused = memeloom("feedback", "export", "mine")
    assert refused.code == 1
    assert "mine exists and is not an export of feedback" in refused.err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter.txt"]


def test_votes_of_sites_weigh_captions_after_age_and_add_none(memeloom: Memeloom, tmp_path: Path) -> None:
    fill([
        *(crawled(at, ("plain", f"text {at}"), 10) for at in range(30)),
        crawled(40, ("funny", "text"), 400),
        crawled(41, ("no", "votes"), None),
    ])  # fmt: skip
    assert memeloom("feedback", "export", "without").code == 0
    assert read_feedback(tmp_path / "without") == ([], [])
    assert memeloom("feedback", "export", "feedback", "--votes").code == 0
    read = read_feedback(tmp_path / "feedback")
    weights = {caption.boxes: caption.weight for caption in read.captions}
    assert len(weights) == 31
    assert weights["funny", "text"] == max(weights.values()) > 1
    assert not any(caption.new for caption in read.captions)
    assert {pair.better for pair in read.pairs} == {("funny", "text")}


def test_models_are_compared_as_a_table_a_page_and_json(memeloom: Memeloom, tmp_path: Path) -> None:
    fill([])
    assert "nothing to compare" in memeloom("feedback", "report").out
    for number in range(8):
        react(("one", str(number)), 9, 1, arm="one")
        react(("two", str(number)), 1, 9, arm="two")
    found = memeloom("feedback", "report", "--output", "page.html")
    assert found.code == 0, found.err
    assert "two is liked less than one: −80.0 points" in found.out
    assert "page: page.html" in found.out
    assert "two is liked less than one" in (tmp_path / "page.html").read_text()
    written = json.loads(memeloom("feedback", "report", "--json").out)
    assert written["models"]["one"] == {"memes": 8, "shown": 0, "votes": 80, "likes": 72}
    assert written["differences"][0]["difference"]["high"] < 0


def test_without_a_catalog_there_is_one_line(memeloom: Memeloom) -> None:
    for arguments in (("export", "x"), ("report",)):
        found = memeloom("feedback", *arguments)
        assert found.code == 1
        assert found.err.strip().splitlines()[-1].startswith("memeloom: ")
