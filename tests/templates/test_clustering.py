"""New templates: memes with one picture and different captions become a template, also after a kill."""

from collections.abc import Callable, Iterable

import pytest
from PIL import Image as Pillow
from PIL import ImageOps

from memeloom.configs.progress import Silent
from memeloom.configs.runs import Summary
from memeloom.configs.schema import Config
from memeloom.templates.stage import match_memes
from tests.templates.meme_catalog import MemeCatalog

pytestmark = pytest.mark.usefixtures("in_process")
Draw = Callable[[int], Pillow.Image]
Captioned = Callable[[int, int], Pillow.Image]


def run(config: Config, **options: bool) -> Summary:
    return match_memes(config, Silent(), **options)


def with_(config: Config, **templates: object) -> Config:
    return config.model_copy(update={"templates": config.templates.model_copy(update=templates)})


def names(*memes: str) -> list[str]:
    return sorted(memes)


def test_three_captions_on_one_picture_make_a_template(
    config: Config, catalog: MemeCatalog, captioned: Captioned, draw: Draw
) -> None:
    for number in range(3):
        catalog.meme(f"a{number}", captioned(1, number))
    for number in range(2):
        catalog.meme(f"b{number}", captioned(2, number))
    catalog.meme("c", draw(900))
    summary = run(config)
    (template,) = catalog.documents.templates()
    assert catalog.clusters() == {template.id: ["a0", "a1", "a2"]}
    assert catalog.unknown() == ["test:b0", "test:b1", "test:c"]
    assert (template.state, template.source, template.usable) == ("found", "found", True)
    assert template.id.startswith("found:")
    assert template.name == f"Unnamed {template.id.removeprefix('found:')}"
    assert template.first_seen is not None
    assert summary.counts == {
        "templates": 1, "memes": 6, "matched": 0, "unknown": 5, "found": 1, "templates found": 1,
        "pictures recovered": 1, "text boxes learned": 1, "learned later": 2,
    }  # fmt: skip


def test_later_memes_match_the_new_template(config: Config, catalog: MemeCatalog, captioned: Captioned) -> None:
    for number in range(3):
        catalog.meme(f"a{number}", captioned(1, number))
    run(config)
    for number in range(3, 6):
        catalog.meme(f"a{number}", captioned(1, number))
    assert run(config).counts["matched"] == 3
    assert list(catalog.clusters().values()) == [names("a0", "a1", "a2", "a3", "a4", "a5")]


def test_a_second_run_changes_nothing(config: Config, catalog: MemeCatalog, captioned: Captioned) -> None:
    for number in range(5):
        catalog.meme(f"a{number}", captioned(1, number))
    run(config)
    before = catalog.content()
    assert run(config).counts == {"templates": 1, "memes": 0, "matched": 0, "unknown": 0}
    assert catalog.content() == before


def test_copies_of_one_meme_do_not_make_a_template(
    config: Config, catalog: MemeCatalog, captioned: Captioned, encoded: Callable[..., bytes]
) -> None:
    meme = captioned(1, 0)
    for number, quality in enumerate((95, 80, 60, 50)):
        catalog.meme(f"copy{number}", encoded(meme, quality))
    catalog.meme("cropped", meme.crop((15, 10, 490, 395)))
    catalog.meme("framed", ImageOps.expand(meme, 30, "white"))
    catalog.meme("mirrored", ImageOps.mirror(meme))
    assert run(config).counts["unknown"] == 7
    assert list(catalog.documents.templates()) == []
    # Two more captions make it one, and all copies get it, also those of the earlier run.
    catalog.meme("other", captioned(1, 1))
    catalog.meme("third", captioned(1, 2))
    run(config)
    (members,) = catalog.clusters().values()
    assert members == names(*(f"copy{n}" for n in range(4)), "cropped", "framed", "mirrored", "other", "third")
    assert catalog.unknown() == []


def test_a_collage_does_not_join_two_templates(config: Config, catalog: MemeCatalog, captioned: Captioned) -> None:
    for number in range(2):
        catalog.meme(f"a{number}", captioned(1, number))
        catalog.meme(f"b{number}", captioned(2, number))
    for number in range(2, 5):
        both = Pillow.new("RGB", (500, 800))
        both.paste(captioned(1, number), (0, 0))
        both.paste(captioned(2, number), (0, 400))
        catalog.meme(f"c{number}", both)
    run(config)
    for members in catalog.clusters().values():
        assert len({name[0] for name in members}) == 1


def test_clusters_do_not_depend_on_the_order(config: Config, catalog: MemeCatalog, captioned: Captioned) -> None:
    for number in range(6):
        for template in range(3):
            catalog.meme(f"{(number * 7 + template * 5) % 6}-{template}-{number}", captioned(template, number))
    run(config)
    assert sorted(sorted({name[2] for name in members}) for members in catalog.clusters().values()) == [
        ["0"],
        ["1"],
        ["2"],
    ]
    assert catalog.unknown() == []


def test_unknown_memes_are_bounded_and_the_oldest_single_is_forgotten_first(
    config: Config, catalog: MemeCatalog, captioned: Captioned, draw: Draw
) -> None:
    catalog.meme("00", captioned(1, 0))
    catalog.meme("01", captioned(1, 1))
    for number in range(2, 12):
        catalog.meme(f"{number:02}", draw(900 + number))
    tight = with_(config, max_strangers=6)
    summary = run(tight)
    assert summary.counts["unknown forgotten"] == 6
    assert catalog.unknown() == [f"test:{number}" for number in ("00", "01", "08", "09", "10", "11")]
    catalog.meme("99", captioned(1, 2))
    assert run(tight).counts["found"] == 1
    # Forgotten memes are processed again on request.
    catalog.template("4", draw(904))
    run(tight)
    assert catalog.made_on("04") is None
    run(tight, again=True)
    assert catalog.made_on("04") == "4"


def test_a_lower_bound_on_unknown_memes_applies_when_they_are_loaded(
    config: Config, catalog: MemeCatalog, draw: Draw
) -> None:
    for number in range(5):
        catalog.meme(f"{number}", draw(900 + number))
    run(config)
    run(with_(config, max_strangers=2))
    assert len(catalog.unknown()) == 2


def test_a_found_template_is_merged_into_a_known_one_with_its_picture(
    config: Config, catalog: MemeCatalog, captioned: Captioned, draw: Draw
) -> None:
    for number in range(4):
        catalog.meme(f"a{number}", captioned(1, number))
    run(config)
    (found,) = catalog.documents.templates()
    catalog.template("drake", draw(1))
    assert run(config).counts["templates merged"] == 1
    assert catalog.clusters() == {"drake": ["a0", "a1", "a2", "a3"]}
    merged = {template.id: template.merged_into for template in catalog.documents.templates()}
    assert merged == {"drake": None, found.id: "drake"}
    assert list(catalog.documents.sketches(found.id)) == []
    catalog.meme("late", captioned(1, 9))
    run(config)
    assert catalog.made_on("late") == "drake"
    assert run(config).counts == {"templates": 1, "memes": 0, "matched": 0, "unknown": 0}


def test_two_found_templates_with_one_picture_end_as_the_older(
    config: Config, catalog: MemeCatalog, captioned: Captioned
) -> None:
    for number in range(3):
        catalog.meme(f"a{number}", captioned(1, number))
    run(config)
    (older,) = catalog.documents.templates()
    # As in another run that began before this one had found anything.
    strict = with_(config, min_agreement=1.0)
    for number in range(3, 6):
        catalog.meme(f"a{number}", captioned(1, number))
    assert run(strict).counts["unknown"] == 3
    young = Elsewhere(catalog, config)
    young.found([f"a{number}" for number in range(3, 6)])
    assert len(catalog.clusters()) == 2
    assert run(config).counts["templates merged"] == 1
    assert catalog.clusters() == {older.id: names("a0", "a1", "a2", "a3", "a4", "a5")}


class Elsewhere:
    """A run on another machine."""

    def __init__(self, catalog: MemeCatalog, config: Config) -> None:
        self.catalog = catalog
        self.config = config

    def found(self, members: Iterable[str], *, killed_after: int = 99) -> None:
        from memeloom.templates.clustering import GroupMember
        from memeloom.templates.recogniser import Recogniser
        from memeloom.templates.records import SketchRecord
        from memeloom.templates.writes import PendingWrites

        wanted = {f"test:{name}" for name in members}
        stored = {each.meme: SketchRecord.read(each) for each in self.catalog.documents.sketches(unmatched=True)}
        group = [GroupMember(meme, record, 0.8) for meme, record in stored.items() if record and meme in wanted]
        recogniser, writes = Recogniser(self.config.templates), PendingWrites()
        for member in group:
            recogniser.unknown.add(member.meme_id, member.record)
        recogniser.create_template(group, writes)
        writes.write(Killed(self.catalog.documents, killed_after))  # type: ignore[arg-type]


class Killed:
    """A store whose process dies after `writes` writes."""

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
def test_a_new_template_is_finished_after_a_kill_between_two_writes(
    config: Config, catalog: MemeCatalog, captioned: Captioned, writes: int
) -> None:
    config = with_(config, min_members=4)
    for number in range(3):
        catalog.meme(f"a{number}", captioned(1, number))
    run(config)
    Elsewhere(catalog, with_(config, min_members=3)).found(["a0", "a1", "a2"], killed_after=writes)
    run(with_(config, min_members=3))
    (template,) = catalog.documents.templates()
    assert catalog.clusters() == {template.id: ["a0", "a1", "a2"]}
    assert catalog.unknown() == []


def test_after_a_kill_too_few_exemplars_stay_unknown(
    config: Config, catalog: MemeCatalog, captioned: Captioned
) -> None:
    for number in range(2):
        catalog.meme(f"a{number}", captioned(1, number))
    run(config)
    Elsewhere(catalog, config).found(["a0", "a1"], killed_after=1)
    run(config)
    assert list(catalog.documents.templates()) == []
    assert list(catalog.documents.sketches()) == []
    assert catalog.unknown() == ["test:a0", "test:a1"]


def test_a_template_is_named_by_its_memes_titles(config: Config, catalog: MemeCatalog, captioned: Captioned) -> None:
    titles = ["Grumpy Owl strikes again", "me today: grumpy owl", "The Grumpy Owl at work", "no idea what this is"]
    for number, title in enumerate(titles):
        catalog.meme(f"a{number}", captioned(1, number), title=title)
    run(config)
    (template,) = catalog.documents.templates()
    assert template.name == "Grumpy Owl"
    meme = catalog.documents.get("test:a0")
    assert meme is not None
    assert meme.template is not None
    assert meme.template.name == "Grumpy Owl"


@pytest.mark.parametrize("damage", [b"", b"\x01", b"\x01" * 200, b"\xff" * 5000])
def test_unreadable_sketches_are_made_again(
    config: Config, catalog: MemeCatalog, captioned: Captioned, draw: Draw, damage: bytes
) -> None:
    from memeloom.catalog.documents import StoredSketch

    catalog.template("known", draw(5))
    for number in range(3):
        catalog.meme(f"a{number}", captioned(1, number))
    catalog.meme("b", draw(900))
    run(config)
    keys = [each.key for each in (*catalog.documents.sketches(), *catalog.documents.sketches(unmatched=True))]
    catalog.documents.put_sketches(StoredSketch(*key, damage) for key in keys)
    catalog.meme("a3", captioned(1, 3))
    catalog.meme("on", captioned(5, 3))
    summary = run(config)
    assert (summary.counts["matched"], summary.counts["unknown"]) == (2, 1)
    assert sorted(len(members) for members in catalog.clusters().values()) == [1, 4]
    assert all(len(each.data) > 500 for each in catalog.documents.sketches() if each.meme)
    assert catalog.unknown() == ["test:b"]
