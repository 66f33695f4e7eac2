"""The page of templates: their counts, a card for each template shown, and the controls to decide about them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from memeloom.catalog.images import Pixels
from memeloom.catalog.records import Template, TemplateBox
from memeloom.report.format import day, number
from memeloom.report.overlay import Mark, Overlay, overlay
from memeloom.report.pages import render
from memeloom.templates.box_facts import write_box
from memeloom.templates.naming import unnamed
from memeloom.templates.report.gather import COUNTED, STEP, Cluster, Member, Tally
from memeloom.templates.report.heat import draw_heat

_FAILED = "failed/"
_WIDTH, _WIDTH_CLOSE, _QUALITY = 340, 620, 72
_STATED_BY = {"memes": "its memes", "site": "its site", "import": "an import", "person": "a person"}
_LONGEST_CAPTION = 160  # characters


@dataclass(frozen=True, slots=True)
class Census:
    """Counts of the catalog's templates and unmatched memes.

    counts: ``known``, ``found``, ``rejected`` and ``merged`` templates; ``named``: known ones that were found here.
    unmatched: memes waiting for others with the same picture. unknown: memes with a picture and no template.
    """

    counts: Mapping[str, int]
    unmatched: int
    unknown: int


@dataclass(frozen=True, slots=True)
class Run:
    """A run of the stage. outcomes: by name, failures as ``failed/REASON``. ended: ``finished``, or what stopped it."""

    began: datetime
    seconds: float
    ended: str
    outcomes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Card:
    """A template on the page.

    figures: drawings (None without a picture) with their captions. members: (address, picture, caption, tooltip).
    decisions: possible ones: ``name``, ``merge``, ``reject``, ``boxes``, and ``keep`` for a proposed name.
    boxes: its text boxes, as ``memeloom templates boxes`` takes them.
    tally: counts of members, if counted.
    """

    template: Template
    state: str
    facts: tuple[str, ...]
    figures: tuple[tuple[Overlay | None, str], ...]
    members: tuple[tuple[str | None, str | None, str, str], ...]
    decisions: tuple[str, ...]
    boxes: tuple[str, ...]
    tally: "TallyTables | None"


@dataclass(frozen=True, slots=True)
class TallyTables:
    """A sentence about a template's members, and their numbers by source and by similarity."""

    summary: str
    sources: list[tuple[str, int]]
    similarity: list[tuple[str, int]]


def draw(census: Census, cards: Sequence[Card], names: Mapping[str, str], run: Run | None = None) -> str:
    """Return the page of found templates as HTML. names: of templates to merge into, by id."""
    found = census.counts.get("found", 0)
    outcomes = sorted((run.outcomes if run else {}).items(), key=lambda each: (-each[1], each[0]))
    return _render(
        "1 template found" if found == 1 else f"{number(found)} templates found",
        cards,
        names,
        closely=False,
        run=run,
        found=found,
        tiles=_tiles(census),
        done=[(name, n) for name, n in outcomes if n and not name.startswith(_FAILED)],
        failed=[(name.removeprefix(_FAILED), n) for name, n in outcomes if n and name.startswith(_FAILED)],
    )


def draw_closely(cards: Sequence[Card], names: Mapping[str, str]) -> str:
    """Return the page about single templates as HTML. cards, names: as for `draw`."""
    title = f"Template {cards[0].template.id}" if len(cards) == 1 else f"{number(len(cards))} templates"
    return _render(title, cards, names, closely=True, run=None, found=0, tiles=[], done=[], failed=[])


def make_card(cluster: Cluster, *, closely: bool = False) -> Card:
    """Return the card of a template. closely: with all its pictures and the counts of its members."""
    template = cluster.template
    figures = tuple(_figures(cluster, _WIDTH_CLOSE if closely else _WIDTH))
    facts = [f"{number(cluster.memes)} {_memes(cluster.memes)}"]
    if template.first_seen:
        facts.append(f"first seen {day(template.first_seen)}")
    if template.boxes_stated_by:
        facts.append(f"text boxes from {_STATED_BY[template.boxes_stated_by]}")
    if template.alt_names:
        facts.append(f"also {', '.join(template.alt_names)}")
    return Card(
        template=template,
        state="merged" if template.merged_into is not None else template.state,
        facts=tuple(facts),
        figures=(*figures, *_heat(cluster)) if closely else figures[:1],
        members=tuple(map(_member, cluster.shown)),
        decisions=_decisions(template),
        boxes=tuple(write_box(box) for box in template.boxes),
        tally=_tally(cluster.tally) if cluster.tally else None,
    )


def _render(title: str, cards: Sequence[Card], names: Mapping[str, str], **values: object) -> str:
    return render("templates.html", title=title, script="templates.js", cards=cards, names=names, **values)


def _tiles(census: Census) -> list[tuple[str, str, str]]:
    counts, named = census.counts, census.counts.get("named", 0)
    return [
        ("Known", number(counts.get("known", 0)), f"{number(named)} of them found here" if named else ""),
        ("Found", number(counts.get("found", 0)), "to be decided about"),
        ("Rejected", number(counts.get("rejected", 0)), "not templates"),
        ("Merged", number(counts.get("merged", 0)), "into another"),
        ("Unmatched", number(census.unmatched), "memes waiting for others"),
        ("Without a template", number(census.unknown), "memes with a picture"),
    ]


def _figures(cluster: Cluster, width: int) -> Iterator[tuple[Overlay | None, str]]:
    template = cluster.template
    if cluster.recovered is not None:
        n = len(template.clean.made_from) if template.clean else 0
        yield _drawn(cluster.recovered, template.boxes, width), f"recovered from {number(n)} {_memes(n)}"
    if cluster.site is not None:
        yield _drawn(cluster.site, template.boxes, width), "from its site"
    if cluster.best is None and cluster.stand_in is not None:
        drawn = _drawn(cluster.stand_in, template.boxes, width)
        yield drawn, "one of its memes; the template's own picture is not known yet"
    elif cluster.best is None:
        yield None, ""


def _heat(cluster: Cluster) -> Iterator[tuple[Overlay, str]]:
    if cluster.best is not None and cluster.texts and cluster.texts[1]:
        counts, placed = cluster.texts
        drawn = _drawn(cluster.best, (), _WIDTH_CLOSE, draw_heat(counts, placed))
        yield drawn, f"where {number(placed)} {_memes(placed)} have text"


def _drawn(picture: Pixels, boxes: Sequence[TemplateBox], width: int, layer: str = "") -> Overlay:
    marks = [
        Mark(x=box.x, y=box.y, width=box.width, height=box.height, angle=box.angle, number=at)
        for at, box in enumerate(boxes, start=1)
    ]
    return overlay(picture, marks, width=width, side=width, quality=_QUALITY, layer=layer)


def _member(member: Member) -> tuple[str | None, str | None, str, str]:
    meme = member.meme
    caption = " / ".join(meme.caption) or meme.title or meme.id
    caption = caption if len(caption) <= _LONGEST_CAPTION else f"{caption[: _LONGEST_CAPTION - 1]}…"
    known = "named by its page" if member.distance is None else f"shows {100 - member.distance} % of the template"
    return meme.page_url, member.picture, caption, f"{caption}\n{meme.id}, {known}"


def _decisions(template: Template) -> tuple[str, ...]:
    if template.merged_into is not None:
        return ()
    if template.state == "rejected":
        return ("name", "keep")
    guessed = template.state == "found" and template.name != unnamed(template.id)
    return ("name", "merge", "reject", "boxes", *(("keep",) if guessed else ()))


def _tally(tally: Tally) -> TallyTables:
    matched = sum(tally.distances.values())
    some = f" The first {number(COUNTED)} by id were counted." if tally.looked_at >= COUNTED else ""
    when = f"; posted {day(tally.first)} to {day(tally.last)}" if tally.first and tally.last else ""
    return TallyTables(
        summary=f"{number(matched)} recognised, {number(tally.named_by_page)} named by their pages{when}.{some}",
        sources=tally.sources.most_common(),
        similarity=[(f"{100 - low - STEP} to {100 - low} %", tally.distances[low]) for low in sorted(tally.distances)],
    )


def _memes(n: int) -> str:
    return "meme" if n == 1 else "memes"
