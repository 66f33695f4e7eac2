"""The report as a page, `report.html`."""

from collections.abc import Callable, Iterator
from typing import Final

from memeloom.report.format import number, percent
from memeloom.report.pages import render
from memeloom.report.plot import Plot, Series
from memeloom.train.evaluation.results import Results
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


def render_page(results: Results) -> str:
    """Return the page as HTML."""
    return render(
        "evaluation.html",
        title="Caption quality",
        results=results,
        tiles=_tiles(results),
        judged=(JUDGED, judged_rows(results), HOW_JUDGED),
        warnings=warnings(results),
        written=(WRITTEN, written_rows(results), HOW_WRITTEN),
        plots=[
            _plot(results, "Captions whose template is recognised", lambda found: found.recognised),
            _plot(results, "Different pairs of words", lambda found: found.distinct[1]),
            _plot(results, "Runs of characters known from training", lambda found: found.remembered),
        ],
        by_heart=(BY_HEART, by_heart_rows(results), HOW_BY_HEART),
        templates_head=TEMPLATES,
        templates=[
            (model.name, list(template_rows(model.likelihood.best)), list(template_rows(model.likelihood.worst)))
            for model in results.models
        ],
        samples=list(_samples(results)),
        models=(MODELS, model_rows(results)),
    )


def _tiles(results: Results) -> list[tuple[str, str, str]]:
    best = results.models[0]
    name = best.name if len(results.models) > 1 else ""
    return [
        ("Bits per character", f"{best.likelihood.bits_per_character.value:.3f}", name),
        (f"Next {best.unit}", percent(best.likelihood.accuracy.value), name),
        ("Captions", number(results.captions), f"of the {results.split} split"),
        ("Characters", number(results.characters), ""),
        ("Templates", number(results.templates), ""),
    ]


def _plot(results: Results, title: str, share: Callable[[CaptionSetMetrics], float]) -> Plot:
    temperatures = sorted({at for model in results.models for at in model.sweep}) or [1.0]
    margin = (temperatures[-1] - temperatures[0]) / 20 or 0.1
    return Plot(
        title=title,
        summary="by temperature",
        series=[
            Series(model.name, [(at, share(found)) for at, found in sorted(model.sweep.items())])
            for model in results.models
        ],
        x_label="temperature",
        x_range=(temperatures[0] - margin, temperatures[-1] + margin),
        x_ticks={at: f"{at:g}" for at in temperatures},
        y_ticks={0.0: "0 %", 0.5: "50 %", 1.0: "100 %"},
        y_format=percent,
        levels={} if results.real is None else {"people": share(results.real)},
        dots=True,
    )


def _samples(results: Results) -> Iterator[tuple[str, CaptionSetMetrics, bool]]:
    """Yield (title, captions, open) of people, and of each model at each temperature; the middle one is open."""
    if results.real is None:
        return
    yield "people", results.real, True
    for model in results.models:
        middle = sorted(model.sweep)[len(model.sweep) // 2]
        for at, found in model.sweep.items():
            yield f"{model.name}, temperature {at:g}", found, at == middle
