"""The report in Markdown."""

from typing import Final

from memeloom.dataset.card_markdown import code, prose, table, told
from memeloom.dataset.card_text import shown
from memeloom.train.evaluation.findings import Findings, ModelFindings
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


def render_text(findings: Findings) -> str:
    """The report, as Markdown."""
    parts = [
        "# How good the captions are",
        f"{findings.captions:,} captions for {findings.split} on {findings.templates:,} templates, "
        f"{findings.characters:,} characters; dataset {code(findings.dataset)}, digest {code(findings.digest)}; "
        f"seed {findings.seed}; code at commit {code(findings.commit)}.",
        "## Captions that no model has seen",
        table(JUDGED, judged_rows(findings)),
        *map(prose, warnings(findings)),
        prose(HOW_JUDGED),
    ]
    if findings.real is not None:
        parts += ["## What they write", table(WRITTEN, written_rows(findings)), prose(HOW_WRITTEN)]
        parts += ["## What they know by heart", table(BY_HEART, by_heart_rows(findings)), prose(HOW_BY_HEART)]
    parts.append("## Templates")
    for model in findings.models:
        parts += _templates(model)
    if findings.real is not None:
        parts += ["## Some captions", "\n".join(_samples(findings))]
    parts += ["## How they were made", table(MODELS, model_rows(findings))]
    return "\n\n".join(parts) + "\n"


def _templates(model: ModelFindings) -> list[str]:
    rows = [*template_rows(model.likelihood.best), *reversed([*template_rows(model.likelihood.worst)])]
    return [f"{told(model.name)}, fewest and most bits:", table(TEMPLATES, rows)] if rows else []


def _samples(findings: Findings) -> list[str]:
    """As code, for what is said there means nothing to Markdown."""
    assert findings.real is not None
    said = [("people", findings.real)]
    said += [(f"{model.name}, {at:g}", found) for model in findings.models for at, found in model.sweep.items()]
    return [
        f"    {shown(name)}: {shown(sample.template)}: {shown(' / '.join(sample.boxes))}"
        for name, found in said
        for sample in found.samples
    ]
