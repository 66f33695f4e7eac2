"""Discovery: what enough strangers share becomes a template, whatever is killed on the way, and nothing else does."""

from collections.abc import Callable, Iterable

import pytest
from PIL import Image as Pillow
from PIL import ImageOps

from memeloom.configs.progress import Silent
from memeloom.configs.runs import Summary
from memeloom.configs.schema import Config
from memeloom.templates.stage import match_memes
from tests.templates.shelf import Shelf

Draw = Callable[[int], Pillow.Image]
Captioned = Callable[[int, int], Pillow.Image]


def run(config: Config, **options: bool) -> Summary:
    return match_memes(config, Silent(), **options)


def with_(config: Config, **templates: object) -> Config:
    return config.model_copy(update={"templates": config.templates.model_copy(update=templates)})


def names(*memes: str) -> list[str]:
    return sorted(memes)


def test_three_captions_on_one_picture_make_a_template(
    config: Config, shelf: Shelf, captioned: Captioned, draw: Draw
) -> None:
    for number in range(3):
        shelf.meme(f"a{number}", captioned(1, number))
    for number in range(2):
        shelf.meme(f"b{number}", captioned(2, number))
    shelf.meme("c", draw(900))
    summary = run(config)
    (template,) = shelf.documents.templates()
    assert shelf.clusters() == {template.id: ["a0", "a1", "a2"]}
    assert shelf.strangers() == ["test:b0", "test:b1", "test:c"]
    assert (template.state, template.source, template.usable) == ("found", "found", True)
    assert template.id.startswith("found:")
    assert template.name == f"Unnamed {template.id.removeprefix('found:')}"
    assert template.first_seen is not None
    assert summary.counts == {
        "templates": 1, "memes": 6, "matched": 0, "unknown": 5, "found": 1, "templates found": 1,
        "pictures recovered": 1, "text boxes learned": 1, "learned later": 2,
    }  # fmt: skip


def test_who_comes_later_joins(config: Config, shelf: Shelf, captioned: Captioned) -> None:
    for number in range(3):
        shelf.meme(f"a{number}", captioned(1, number))
    run(config)
    for number in range(3, 6):
        shelf.meme(f"a{number}", captioned(1, number))
    assert run(config).counts["matched"] == 3
    assert list(shelf.clusters().values()) == [names("a0", "a1", "a2", "a3", "a4", "a5")]


def test_a_second_run_changes_nothing(config: Config, shelf: Shelf, captioned: Captioned) -> None:
    for number in range(5):
        shelf.meme(f"a{number}", captioned(1, number))
    run(config)
    before = [list(shelf.documents.scan()), list(shelf.documents.templates()), list(shelf.documents.sketches())]
    assert run(config).counts == {"templates": 1, "memes": 0, "matched": 0, "unknown": 0}
    assert [*map(list, (shelf.documents.scan(), shelf.documents.templates(), shelf.documents.sketches()))] == before


def test_one_meme_posted_often_is_no_template(
    config: Config, shelf: Shelf, captioned: Captioned, encoded: Callable[..., bytes]
) -> None:
    meme = captioned(1, 0)
    for number, quality in enumerate((95, 80, 60, 50)):
        shelf.meme(f"copy{number}", encoded(meme, quality))
    shelf.meme("cropped", meme.crop((15, 10, 490, 395)))
    shelf.meme("framed", ImageOps.expand(meme, 30, "white"))
    shelf.meme("mirrored", ImageOps.mirror(meme))
    assert run(config).counts["unknown"] == 7
    assert list(shelf.documents.templates()) == []
    # With two more captions it becomes one, and all copies learn it, those of the run before too.
    shelf.meme("other", captioned(1, 1))
    shelf.meme("third", captioned(1, 2))
    run(config)
    (members,) = shelf.clusters().values()
    assert members == names(*(f"copy{n}" for n in range(4)), "cropped", "framed", "mirrored", "other", "third")
    assert shelf.strangers() == []


def test_a_collage_does_not_tie_two_templates_together(config: Config, shelf: Shelf, captioned: Captioned) -> None:
    for number in range(2):
        shelf.meme(f"a{number}", captioned(1, number))
        shelf.meme(f"b{number}", captioned(2, number))
    for number in range(2, 5):
        both = Pillow.new("RGB", (500, 800))
        both.paste(captioned(1, number), (0, 0))
        both.paste(captioned(2, number), (0, 400))
        shelf.meme(f"c{number}", both)
    run(config)
    for members in shelf.clusters().values():
        assert len({name[0] for name in members}) == 1


def test_the_order_of_arrival_matters_little(config: Config, shelf: Shelf, captioned: Captioned) -> None:
    for number in range(6):
        for template in range(3):
            shelf.meme(f"{(number * 7 + template * 5) % 6}-{template}-{number}", captioned(template, number))
    run(config)
    assert sorted(sorted({name[2] for name in members}) for members in shelf.clusters().values()) == [
        ["0"],
        ["1"],
        ["2"],
    ]
    assert shelf.strangers() == []


def test_strangers_are_bounded_and_the_oldest_single_goes_first(
    config: Config, shelf: Shelf, captioned: Captioned, draw: Draw
) -> None:
    shelf.meme("00", captioned(1, 0))
    shelf.meme("01", captioned(1, 1))
    for number in range(2, 12):
        shelf.meme(f"{number:02}", draw(900 + number))
    tight = with_(config, max_strangers=6)
    summary = run(tight)
    assert summary.counts["strangers forgotten"] == 6
    assert shelf.strangers() == [f"test:{number}" for number in ("00", "01", "08", "09", "10", "11")]
    shelf.meme("99", captioned(1, 2))
    assert run(tight).counts["found"] == 1
    # What was forgotten is looked at again on request.
    shelf.template("4", draw(904))
    run(tight)
    assert shelf.made_on("04") is None
    run(tight, again=True)
    assert shelf.made_on("04") == "4"


def test_fewer_strangers_allowed_than_there_are_is_heeded_when_they_are_loaded(
    config: Config, shelf: Shelf, draw: Draw
) -> None:
    for number in range(5):
        shelf.meme(f"{number}", draw(900 + number))
    run(config)
    run(with_(config, max_strangers=2))
    assert len(shelf.strangers()) == 2


def test_a_found_template_that_a_site_tells_of_is_merged_into_that(
    config: Config, shelf: Shelf, captioned: Captioned, draw: Draw
) -> None:
    for number in range(4):
        shelf.meme(f"a{number}", captioned(1, number))
    run(config)
    (found,) = shelf.documents.templates()
    shelf.template("drake", draw(1))
    assert run(config).counts["templates merged"] == 1
    assert shelf.clusters() == {"drake": ["a0", "a1", "a2", "a3"]}
    merged = {template.id: template.merged_into for template in shelf.documents.templates()}
    assert merged == {"drake": None, found.id: "drake"}
    assert list(shelf.documents.sketches(found.id)) == []
    shelf.meme("late", captioned(1, 9))
    run(config)
    assert shelf.made_on("late") == "drake"
    assert run(config).counts == {"templates": 1, "memes": 0, "matched": 0, "unknown": 0}


def test_two_runs_that_found_one_template_each_end_with_the_older(
    config: Config, shelf: Shelf, captioned: Captioned
) -> None:
    for number in range(3):
        shelf.meme(f"a{number}", captioned(1, number))
    run(config)
    (older,) = shelf.documents.templates()
    # As a run elsewhere does that began before this one had found anything.
    strange = with_(config, min_agreement=1.0)
    for number in range(3, 6):
        shelf.meme(f"a{number}", captioned(1, number))
    assert run(strange).counts["unknown"] == 3
    young = Elsewhere(shelf, config)
    young.found([f"a{number}" for number in range(3, 6)])
    assert len(shelf.clusters()) == 2
    assert run(config).counts["templates merged"] == 1
    assert shelf.clusters() == {older.id: names("a0", "a1", "a2", "a3", "a4", "a5")}


class Elsewhere:
    """A run on another machine that knows only what it is told."""

    def __init__(self, shelf: Shelf, config: Config) -> None:
        self.shelf = shelf
        self.config = config

    def found(self, members: Iterable[str], *, killed_after: int = 99) -> None:
        from memeloom.templates.discover import Founder
        from memeloom.templates.founding import Explorer
        from memeloom.templates.kept import Kept
        from memeloom.templates.ledger import Ledger

        wanted = {f"test:{name}" for name in members}
        stored = {each.meme: Kept.read(each) for each in self.shelf.documents.sketches(strangers=True)}
        founders = [Founder(meme, kept, 0.8) for meme, kept in stored.items() if kept and meme in wanted]
        explorer, ledger = Explorer(self.config.templates), Ledger()
        for founder in founders:
            explorer.strangers.add(founder.meme_id, founder.kept)
        explorer.found(founders, ledger)
        ledger.write(Killed(self.shelf.documents, killed_after))  # type: ignore[arg-type]


class Killed:
    """A store whose user dies after so many writes."""

    def __init__(self, documents: object, writes: int) -> None:
        self._documents = documents
        self._left = writes

    def __getattr__(self, name: str) -> Callable[..., None]:
        def write(*arguments: object) -> None:
            self._left -= 1
            if self._left >= 0:
                getattr(self._documents, name)(*arguments)

        return write


@pytest.mark.parametrize("writes", [1, 2, 3, 4])
def test_a_founding_that_was_killed_between_two_writes_is_finished(
    config: Config, shelf: Shelf, captioned: Captioned, writes: int
) -> None:
    config = with_(config, min_members=4)
    for number in range(3):
        shelf.meme(f"a{number}", captioned(1, number))
    run(config)
    Elsewhere(shelf, with_(config, min_members=3)).found(["a0", "a1", "a2"], killed_after=writes)
    run(with_(config, min_members=3))
    (template,) = shelf.documents.templates()
    assert shelf.clusters() == {template.id: ["a0", "a1", "a2"]}
    assert shelf.strangers() == []


def test_too_few_exemplars_of_a_founding_that_was_killed_are_strangers_still(
    config: Config, shelf: Shelf, captioned: Captioned
) -> None:
    for number in range(2):
        shelf.meme(f"a{number}", captioned(1, number))
    run(config)
    Elsewhere(shelf, config).found(["a0", "a1"], killed_after=1)
    run(config)
    assert list(shelf.documents.templates()) == []
    assert list(shelf.documents.sketches()) == []
    assert shelf.strangers() == ["test:a0", "test:a1"]


def test_the_name_is_what_the_titles_agree_on(config: Config, shelf: Shelf, captioned: Captioned) -> None:
    titles = ["Grumpy Owl strikes again", "me today: grumpy owl", "The Grumpy Owl at work", "no idea what this is"]
    for number, title in enumerate(titles):
        shelf.meme(f"a{number}", captioned(1, number), title=title)
    run(config)
    (template,) = shelf.documents.templates()
    assert template.name == "Grumpy Owl"
    meme = shelf.documents.get("test:a0")
    assert meme is not None
    assert meme.template is not None
    assert meme.template.name == "Grumpy Owl"


@pytest.mark.parametrize("damage", [b"", b"\x01", b"\x01" * 200, b"\xff" * 5000])
def test_sketches_that_cannot_be_read_are_made_again(
    config: Config, shelf: Shelf, captioned: Captioned, draw: Draw, damage: bytes
) -> None:
    from memeloom.catalog.documents import StoredSketch

    shelf.template("known", draw(5))
    for number in range(3):
        shelf.meme(f"a{number}", captioned(1, number))
    shelf.meme("b", draw(900))
    run(config)
    keys = [each.key for each in (*shelf.documents.sketches(), *shelf.documents.sketches(strangers=True))]
    shelf.documents.put_sketches(StoredSketch(*key, damage) for key in keys)
    shelf.meme("a3", captioned(1, 3))
    shelf.meme("on", captioned(5, 3))
    summary = run(config)
    assert (summary.counts["matched"], summary.counts["unknown"]) == (2, 1)
    assert sorted(len(members) for members in shelf.clusters().values()) == [1, 4]
    assert all(len(each.data) > 500 for each in shelf.documents.sketches() if each.meme)
    assert shelf.strangers() == ["test:b"]
