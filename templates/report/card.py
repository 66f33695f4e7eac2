"""One template on the page: its picture with its text boxes, facts, some of its memes, and what can be decided."""

from collections.abc import Iterator
from datetime import datetime
from html import escape

from memeloom.catalog.images import Pixels
from memeloom.catalog.records import Template
from memeloom.configs.page import link, table
from memeloom.templates.naming import unnamed
from memeloom.templates.report.decide import controls
from memeloom.templates.report.gather import COUNTED, STEP, Cluster, Member, Tally
from memeloom.templates.report.heat import draw_heat
from memeloom.templates.report.picture import describe, draw_boxes

_ACROSS, _ACROSS_ONE = 340, 620
_LONGEST_SAID = 160  # characters


def draw_card(cluster: Cluster) -> str:
    """The card of one among many. HTML."""
    figure = next(_figures(cluster, _ACROSS))
    return _article(cluster.template, f"{figure}<div>{_about(cluster)}</div>{_members(cluster)}")


def draw_closely(cluster: Cluster) -> str:
    """The card of the one template that the page is about. HTML."""
    figures = "".join((*_figures(cluster, _ACROSS_ONE), *_heat(cluster)))
    facts = _tally(cluster.tally) if cluster.tally else ""
    return _article(
        cluster.template,
        f'<div>{_about(cluster)}</div><div class="closely">{figures}</div>{_members(cluster)}{facts}',
    )


def _article(template: Template, inner: str) -> str:
    return f'<article data-id="{escape(template.id)}">{inner}{_controls(template)}</article>'


def _figures(cluster: Cluster, across: int) -> Iterator[str]:
    """The picture made from memes, the one of a site, or what stands in for them: at least one."""
    template = cluster.template
    if cluster.recovered is not None:
        n = len(template.clean.made_from) if template.clean else 0
        yield _figure(cluster.recovered, f"recovered from {n:,} {_memes(n)}", template, across)
    if cluster.site is not None:
        yield _figure(cluster.site, "as its site gives it", template, across)
    if cluster.best is None and cluster.stand_in is not None:
        yield _figure(cluster.stand_in, "one of its memes; its own picture is not known yet", template, across)
    elif cluster.best is None:
        yield '<figure><div class="none">no picture</div></figure>'


def _heat(cluster: Cluster) -> Iterator[str]:
    if cluster.best is not None and cluster.texts and cluster.texts[1]:
        placed = cluster.texts[1]
        drawn = draw_boxes(cluster.best, (), across=_ACROSS_ONE, over=draw_heat(*cluster.texts))
        yield f"<figure>{drawn}{_caption(f'where the texts of {placed} {_memes(placed)} stand')}</figure>"


def _figure(picture: Pixels, told: str, template: Template, across: int) -> str:
    return f"<figure>{draw_boxes(picture, template.boxes, across=across)}{_caption(told)}</figure>"


def _caption(told: str) -> str:
    return f"<figcaption>{escape(told)}</figcaption>"


def _memes(n: int) -> str:
    return "meme" if n == 1 else "memes"


def _about(cluster: Cluster) -> str:
    template = cluster.template
    state = "merged" if template.merged_into is not None else template.state
    into = f" into <code>{escape(template.merged_into)}</code>" if template.merged_into is not None else ""
    facts = [f"{cluster.memes:,} {_memes(cluster.memes)}"]
    if template.first_seen:
        facts.append(f"first seen {_day(template.first_seen)}")
    if template.alt_names:
        facts.append(f"also {', '.join(template.alt_names)}")
    styles = "".join(f"<li>{describe(box.style) if box.style else 'as usual'}</li>" for box in template.boxes)
    learned = any(box.style for box in template.boxes)
    return (
        f"<h3><bdi>{escape(template.name)}</bdi></h3>"
        f'<p><code>{escape(template.id)}</code> <span class="state {state}">{state}{into}</span></p>'
        f'<p class="soft">{escape(" · ".join(facts))}</p>'
        + (f'<ol class="styles">{styles}</ol>' if learned else "")
    )  # fmt: skip


def _members(cluster: Cluster) -> str:
    if not cluster.shown:
        return '<p class="soft">No meme is made on it.</p>'
    shown = "".join(f"<li>{_member(member)}</li>" for member in cluster.shown)
    return f'<ul class="members" aria-label="some of its memes, the least alike first">{shown}</ul>'


def _member(member: Member) -> str:
    meme = member.meme
    said = " / ".join(meme.caption) or meme.title or meme.id
    said = said if len(said) <= _LONGEST_SAID else f"{said[: _LONGEST_SAID - 1]}…"
    far = (
        f"{100 - member.distance} % of the template in view shows"
        if member.distance is not None
        else "named by its page"
    )
    title = f"{said}\n{meme.id}, {far}"
    if member.picture is None:
        picture = f'<div class="none" title="{escape(title)}">no picture</div>'
    else:
        picture = f'<img src="{member.picture}" alt="{escape(said)}" title="{escape(title)}">'
    return link(meme.page_url, picture)


def _tally(tally: Tally) -> str:
    matched = sum(tally.distances.values())
    some = f" The first {COUNTED:,} by id were counted." if tally.looked_at >= COUNTED else ""
    when = f"; posted {_day(tally.first)} to {_day(tally.last)}" if tally.first and tally.last else ""
    sources = ((name, f"{n:,}") for name, n in tally.sources.most_common())
    alike = ((f"{100 - low - STEP} to {100 - low} %", f"{tally.distances[low]:,}") for low in sorted(tally.distances))
    return (
        f'<div><p class="soft">{matched:,} recognised, {tally.named_by_page:,} named by their pages{when}.{some}</p>'
        f'<div class="tables"><section>{table(("source", "memes"), sources)}</section>'
        f"<section>{table(('share of the template in view that the picture shows', 'memes'), alike)}</section>"
        "</div></div>"
    )


def _controls(template: Template) -> str:
    if template.merged_into is not None:
        return ""
    if template.state == "rejected":
        return controls(template.name, ("name", "keep"))
    guessed = template.state == "found" and template.name != unnamed(template.id)
    return controls(template.name, ("name", "merge", "reject", *(("keep",) if guessed else ())))


def _day(when: datetime) -> str:
    return f"{when.day} {when:%B %Y}"
