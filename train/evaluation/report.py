"""The report of an evaluation, as HTML and Markdown."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from memeloom.report.format import number, one_line, percent
from memeloom.report.markdown import code, escaped, foreign, table
from memeloom.report.pages import render
from memeloom.report.plot import Plot, Series
from memeloom.train.evaluation.likelihood import Interval, TemplateMetrics
from memeloom.train.evaluation.overlap import RUN
from memeloom.train.evaluation.results import Results
from memeloom.train.evaluation.sweep import CaptionSetMetrics

PAGE: Final = "report.html"
TEXT: Final = "report.md"
_TITLE: Final = "Caption quality"
_TEMPLATE_HEAD: Final = ("template", "captions", "bits/char", "accuracy")


class _Table(NamedTuple):
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def render_page(results: Results) -> str:
    """Return the report as an HTML page."""
    return render(
        "evaluation.html",
        title=_TITLE,
        results=results,
        tiles=_tiles(results),
        likelihood=_likelihood(results),
        warnings=_warnings(results),
        written=_written(results),
        plots=[
            _plot(results, "Captions whose template is recognised", lambda found: found.recognised),
            _plot(results, "Different pairs of words", lambda found: found.distinct[1]),
            _plot(results, "Runs of characters known from training", lambda found: found.remembered),
        ],
        memorised=_memorised(results),
        ranked=_ranked(results),
        templates_head=_TEMPLATE_HEAD,
        templates=[
            (model.name, _templates(model.likelihood.best), _templates(model.likelihood.worst))
            for model in results.models
            if model.likelihood.best or model.likelihood.worst
        ],
        samples=_samples(results),
        models=_models(results),
    )


def render_text(results: Results) -> str:
    """Return the report as Markdown."""
    parts = [
        f"# {_TITLE}",
        f"{results.captions:,} captions for {results.split} on {results.templates:,} templates, "
        f"{results.characters:,} characters; dataset {code(results.dataset)}, digest {code(results.digest)}; "
        f"seed {results.seed}; code at commit {code(results.commit)}.",
        *_section("Held-out captions", _likelihood(results)),
        *map(escaped, _warnings(results)),
    ]
    if results.real is not None:
        parts += _section("Generated captions", _written(results)) + _section("Memorised text", _memorised(results))
    if _ranked(results).rows:
        parts += _section("Votes", _ranked(results))
    parts.append("## Templates")
    for model in results.models:
        rows = _templates((*model.likelihood.best, *reversed(model.likelihood.worst)))
        parts += [f"{foreign(model.name)}, fewest and most bits:", table(_TEMPLATE_HEAD, rows)] if rows else []
    if results.real is not None:
        # Indented, as code: what captions say has no meaning to Markdown.
        lines = [
            f"    {one_line(title)}: {one_line(sample.template)}: {one_line(' / '.join(sample.boxes))}"
            for title, found, _ in _samples(results)
            for sample in found.samples
        ]
        parts += ["## Some captions", "\n".join(lines)]
    parts += _section("How it was made", _models(results))
    return "\n\n".join(parts) + "\n"


def _section(title: str, content: _Table) -> list[str]:
    return [f"## {title}", table(content.head, content.rows), *([escaped(content.note)] if content.note else [])]


def _tiles(results: Results) -> list[tuple[str, str, str]]:
    best = results.models[0]
    accuracy = best.likelihood.accuracy
    name = best.name if len(results.models) > 1 else ""
    return [
        ("Bits per character", f"{best.likelihood.bits_per_character.value:.3f}", name),
        (f"Next {best.unit}", _percent(None if accuracy is None else accuracy.value), name),
        ("Captions", number(results.captions), f"of the {results.split} split"),
        ("Characters", number(results.characters), ""),
        ("Templates", number(results.templates), ""),
    ]


def _likelihood(results: Results) -> _Table:
    head = "model", "bits/char", "behind best", "accuracy", "token", "perplexity/char", "perplexity/token", "loss/token"
    rows = []
    for model in results.models:
        found = model.likelihood
        accuracy = found.accuracy
        rows.append((
            model.name,
            _interval(found.bits_per_character),
            "" if found.behind_best is None else _interval(found.behind_best),
            "" if accuracy is None else _accuracy(accuracy),
            model.unit,
            f"{found.perplexity_per_character:.3f}",
            f"{found.perplexity_per_token:,.3f}",
            f"{found.loss_per_token:.4f}",
        ))  # fmt: skip
    note = (
        "Bits per character: the length of the code that a model gives the captions, over their characters (each box "
        "ends with a separator, which counts); it compares models of characters, words and pieces of words. Accuracy: "
        "the share of a model's own tokens that were its first choice; compare it only between models with the same "
        "token. Brackets: 95 % of 1,000 samples of the captions, drawn with replacement; “behind best” compares the "
        "same samples."
    )
    return _Table(head, rows, note)


def _written(results: Results) -> _Table:
    head = (
        "recognised", "distinct 1", "distinct 2", "distinct 3", "self-BLEU", "repeated", "repeats a box", "empty",
        "cut", "characters",
    )  # fmt: skip
    note = (
        "Each model writes a caption for the template of each of the same held-out captions, sampled at each "
        "temperature. Recognised: a naive Bayes classifier, trained on the words of the training captions, predicts "
        "the template; people's captions are the ceiling. Distinct n: share of different runs of n words. Self-BLEU: "
        "mean similarity of a caption to all others (BLEU-4). Repeated: equal to an earlier caption on the same "
        "template. Repeats a box: a box has three words in a row, or all, of the box before; `memeloom generate` "
        "draws such captions again. Characters: mean length. Captions without words count as empty, and nowhere else."
    )
    return _caption_sets(results, head, note, lambda found: [
        percent(found.recognised), *(f"{each:.3f}" for each in (*found.distinct, found.self_bleu)),
        *map(percent, (found.repeated, found.repetitive, found.empty, found.cut)), f"{found.characters:.1f}",
    ])  # fmt: skip


def _memorised(results: Results) -> _Table:
    head = "verbatim", "on its template", f"with {RUN} known", f"all {RUN}s known", "longest"
    note = (
        "Verbatim: the whole caption occurs in training, on any template and on its own, whatever the case. "
        f"{RUN} known: a run of {RUN} characters that occurs there; first the share of captions that have one, then "
        "the share of all such runs. Longest: mean length of the longest such run, in steps of ten characters. "
        "People's held-out captions show how much of that is common speech."
    )
    return _caption_sets(results, head, note, lambda found: [
        *map(percent, (found.verbatim, found.on_template, found.runs, found.remembered)), f"{found.longest:.1f}",
    ])  # fmt: skip


def _ranked(results: Results) -> _Table:
    """Return a row for each model with a ranker that knows votes."""
    head = "model", "pairs", "ordered as voted", "after views and age"
    note = (
        "Pairs of held-out captions on one template of which one has at least twice the votes, and five more: the "
        "share in which the model's ranker prefers it, and the same among those that stay in this order when views and "
        "age are controlled for. Brackets: 95 % of 1,000 samples of the captions, drawn with replacement."
    )
    rows = [
        (model.name, number(found.pairs), *(_shares(each) for each in (found.accuracy, found.controlled)))
        for model in results.models
        if (found := model.ranker) is not None
    ]
    return _Table(head, rows, note)


def _shares(each: Interval) -> str:
    return f"{100 * each.value:.1f} % ({100 * each.low:.1f}–{100 * each.high:.1f})"


def _caption_sets(
    results: Results, head: Sequence[str], note: str, cells: Callable[[CaptionSetMetrics], Sequence[str]]
) -> _Table:
    """Return a table with a row for people, and for each model at each temperature."""
    rows = [] if results.real is None else [("people", "", *cells(results.real))]
    rows += [
        (model.name, f"{temperature:g}", *cells(found))
        for model in results.models
        for temperature, found in model.sweep.items()
    ]
    return _Table(("captions of", "temperature", *head), rows, note)


def _models(results: Results) -> _Table:
    head = "model", "kind", "parameters", "trained", "device", "commit", "captions scored/s", "folder"
    rows = [
        (
            model.name,
            model.kind,
            "" if model.parameters is None else number(model.parameters),
            "" if model.trained.seconds is None else f"{model.trained.seconds:,.0f} s",
            model.trained.on,
            model.trained.commit or "",
            f"{model.likelihood.captions / model.likelihood.seconds:,.0f}",
            model.folder or "",
        )
        for model in results.models
    ]
    return _Table(head, rows)


def _templates(templates: Sequence[TemplateMetrics]) -> list[tuple[str, ...]]:
    return [
        (each.name, number(each.captions), f"{each.bits_per_character:.3f}", _percent(each.accuracy))
        for each in templates
    ]


def _warnings(results: Results) -> Iterator[str]:
    for model in results.models:
        unknown = model.likelihood.unknown_characters
        if unknown:
            yield (
                f"{model.name} does not know {unknown:,} of the {results.characters:,} characters: each is spelled, at "
                "the cost of a character of all Unicode and of saying where it stands, and counts as wrong."
            )
        if model.trained.dataset not in (None, results.digest):
            yield (
                f"{model.name} learned from another dataset ({model.trained.dataset}): captions that are held out here "
                "may be among those that it learned."
            )


def _plot(results: Results, title: str, share: Callable[[CaptionSetMetrics], float]) -> Plot:
    temperatures = sorted({at for model in results.models for at in model.sweep}) or [1.0]
    margin = (temperatures[-1] - temperatures[0]) / 20 or 0.1
    return Plot(
        title=title,
        summary="by temperature",
        series=[
            Series(model.name, [(at, share(found)) for at, found in sorted(model.sweep.items())])
            for model in results.models
            if model.sweep
        ],
        x_label="temperature",
        x_range=(temperatures[0] - margin, temperatures[-1] + margin),
        x_ticks={at: f"{at:g}" for at in temperatures},
        y_ticks={0.0: "0 %", 0.5: "50 %", 1.0: "100 %"},
        y_format=percent,
        levels={} if results.real is None else {"people": share(results.real)},
        dots=True,
    )


def _samples(results: Results) -> list[tuple[str, CaptionSetMetrics, bool]]:
    """Return (title, captions, open) of people, and of each model and temperature; the middle temperature is open."""
    if results.real is None:
        return []
    found = [("people", results.real, True)]
    for model in results.models:
        if not model.sweep:
            continue
        middle = sorted(model.sweep)[len(model.sweep) // 2]
        found += [(f"{model.name}, temperature {at:g}", each, at == middle) for at, each in model.sweep.items()]
    return found


def _accuracy(each: Interval) -> str:
    return f"{100 * each.value:.2f} % ({100 * each.low:.2f}–{100 * each.high:.2f})"


def _percent(share: float | None) -> str:
    return "–" if share is None else percent(share)


def _interval(each: Interval) -> str:
    return f"{each.value:.3f} ({each.low:.3f}–{each.high:.3f})"
