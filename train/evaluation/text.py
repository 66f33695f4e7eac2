"""The report in Markdown."""

from typing import Final

from memeloom.report.format import one_line
from memeloom.report.markdown import code, escaped, foreign, table
from memeloom.train.evaluation.results import ModelResult, Results
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

REPORT: Final = "report.md"


def render_text(results: Results) -> str:
    """The report, as Markdown."""
    parts = [
        "# Caption quality",
        f"{results.captions:,} captions for {results.split} on {results.templates:,} templates, "
        f"{results.characters:,} characters; dataset {code(results.dataset)}, digest {code(results.digest)}; "
        f"seed {results.seed}; code at commit {code(results.commit)}.",
        "## Held-out captions",
        table(JUDGED, judged_rows(results)),
        *map(escaped, warnings(results)),
        escaped(HOW_JUDGED),
    ]
    if results.real is not None:
        parts += ["## Generated captions", table(WRITTEN, written_rows(results)), escaped(HOW_WRITTEN)]
        parts += ["## Memorised text", table(BY_HEART, by_heart_rows(results)), escaped(HOW_BY_HEART)]
    parts.append("## Templates")
    for model in results.models:
        parts += _templates(model)
    if results.real is not None:
        parts += ["## Some captions", "\n".join(_samples(results))]
    parts += ["## How it was made", table(MODELS, model_rows(results))]
    return "\n\n".join(parts) + "\n"


def _templates(model: ModelResult) -> list[str]:
    rows = [*template_rows(model.likelihood.best), *reversed([*template_rows(model.likelihood.worst)])]
    return [f"{foreign(model.name)}, fewest and most bits:", table(TEMPLATES, rows)] if rows else []


def _samples(results: Results) -> list[str]:
    """As code, for what is said there means nothing to Markdown."""
    assert results.real is not None
    said = [("people", results.real)]
    said += [(f"{model.name}, {at:g}", found) for model in results.models for at, found in model.sweep.items()]
    return [
        f"    {one_line(name)}: {one_line(sample.template)}: {one_line(' / '.join(sample.boxes))}"
        for name, found in said
        for sample in found.samples
    ]
