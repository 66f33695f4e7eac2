"""The report as a page: one file that needs nothing but itself and runs no script."""

from collections.abc import Callable
from html import escape
from typing import Final

from memeloom.configs.page import page, table, tiles
from memeloom.dataset.card_captions import STYLE as CAPTIONS_STYLE
from memeloom.dataset.card_captions import caption_list, words
from memeloom.train.evaluation.plot import STYLE as PLOT_STYLE
from memeloom.train.evaluation.plot import legend, shares_over
from memeloom.train.evaluation.results import ModelResult, Results
from memeloom.train.evaluation.sweep import CaptionSetMetrics
from memeloom.train.evaluation.tables import (
    BY_HEART,
    HOW_BY_HEART,
    HOW_JUDGED,
    HOW_WRITTEN,
    JUDGED,
    MODELS,
    TEMPLATES,
    WRITTEN,
    by_heart_rows,
    judged_rows,
    model_rows,
    template_rows,
    warnings,
    written_rows,
)

PAGE: Final = "report.html"
_STYLE = f"""{CAPTIONS_STYLE}{PLOT_STYLE}
.wide th, .wide td {{ white-space: nowrap; overflow-wrap: normal; }} .wide {{ margin: .6rem 0; }}
.wide .n {{ padding-left: 1rem; }} .charts {{ display: grid; gap: 0 1.2rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); }} .charts .chart text {{ font-size: 16px; }}
.warned {{ border-left: 3px solid var(--warn); padding-left: .7rem; }}
"""


def render_page(results: Results) -> str:
    """The page, as HTML."""
    sections = {
        "Captions that no model has seen": _judged(results),
        "What they write": _written(results),
        "What they know by heart": _by_heart(results),
        "Templates": _templates(results),
        "Some captions": _samples(results),
        "How it was made": _made(results),
    }
    body = "".join(f"<section><h2>{title}</h2>{html}</section>" for title, html in sections.items() if html)
    lead = f"{len(results.models):,} model{'' if len(results.models) == 1 else 's'}, judged by the same captions."
    return page("How good the captions are", f'<p class="lead">{lead}</p>', _tiles(results) + body, style=_STYLE)


def _tiles(results: Results) -> str:
    best = results.models[0]
    found = best.likelihood
    name = best.name if len(results.models) > 1 else ""
    return tiles(
        (
            ("Bits per character", f"{found.bits_per_character.value:.3f}", name),
            (f"Next {best.unit}", f"{100 * found.accuracy.value:.1f} %", name),
            ("Captions", f"{results.captions:,}", f"for {results.split}"),
            ("Characters", f"{results.characters:,}", ""),
            ("Templates", f"{results.templates:,}", ""),
        )
    )


def _judged(results: Results) -> str:
    said = "".join(f'<p class="warned">{words(line)}</p>' for line in warnings(results))
    return (
        f'<div class="wide">{table(JUDGED, judged_rows(results))}</div>{said}<p class="soft">{escape(HOW_JUDGED)}</p>'
    )


def _written(results: Results) -> str:
    if results.real is None:
        return ""
    names = [*(words(model.name, 60) for model in results.models), "people"]
    charts = (
        _chart(results, "Captions whose template is recognised", lambda found: found.recognised)
        + _chart(results, "Different pairs of words", lambda found: found.distinct[1])
        + _chart(results, "Runs of characters that stand in training", lambda found: found.remembered)
    )
    return (
        f'<div class="wide">{table(WRITTEN, written_rows(results))}</div>{legend(names)}'
        f'<div class="charts">{charts}</div><p class="soft">{escape(HOW_WRITTEN)}</p>'
    )


def _by_heart(results: Results) -> str:
    if results.real is None:
        return ""
    rows = by_heart_rows(results)
    return f'<div class="wide">{table(BY_HEART, rows)}</div><p class="soft">{escape(HOW_BY_HEART)}</p>'


def _chart(results: Results, title: str, share: Callable[[CaptionSetMetrics], float]) -> str:
    lines = [{at: share(found) for at, found in model.sweep.items()} for model in results.models]
    real = None if results.real is None else share(results.real)
    return f"<div><h3>{escape(title)}</h3>{shares_over(lines, real, f'{title}, by temperature')}</div>"


def _templates(results: Results) -> str:
    return "".join(map(_templates_of, results.models))


def _templates_of(model: ModelResult) -> str:
    found = model.likelihood
    tables = "".join(
        f"<div>{table(TEMPLATES, template_rows(templates), caption)}</div>"
        for caption, templates in (("fewest bits", found.best), ("most bits", found.worst))
        if templates
    )
    return f'<h3>{words(model.name)}</h3><div class="tables">{tables}</div>' if tables else ""


def _samples(results: Results) -> str:
    if results.real is None:
        return ""
    parts = [("people", results.real, False)]
    for model in results.models:
        middle = sorted(model.sweep)[len(model.sweep) // 2]
        parts += [
            (f"{model.name}, temperature {at:g}", figures, at != middle) for at, figures in model.sweep.items()
        ]  # fmt: skip
    return "".join(_sample(*part) for part in parts)


def _sample(title: str, found: CaptionSetMetrics, folded: bool) -> str:
    listed = caption_list((each.boxes, words(each.template)) for each in found.samples)
    listed = listed or '<p class="soft">All were empty.</p>'
    return f"<details{'' if folded else ' open'}><summary>{words(title)}</summary>{listed}</details>"


def _made(results: Results) -> str:
    return (
        f"<p>Dataset <code>{words(results.dataset)}</code>, digest <code>{escape(results.digest)}</code>, split "
        f"{results.split}; seed {results.seed}; code at commit <code>{escape(results.commit)}</code>.</p>"
        f'<div class="wide">{table(MODELS, model_rows(results))}</div>'
    )
