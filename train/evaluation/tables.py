"""The tables of a report as texts, the same for the page and for Markdown."""

from collections.abc import Iterator
from typing import Final, TypeAlias

from memeloom.train.evaluation.likelihood import Interval, TemplateMetrics
from memeloom.train.evaluation.overlap import RUN
from memeloom.train.evaluation.results import Results
from memeloom.train.evaluation.sweep import CaptionSetMetrics

Row: TypeAlias = tuple[str, ...]

JUDGED: Final = (
    "model", "bits/char", "behind best", "accuracy", "token", "perplexity/char", "perplexity/token", "loss/token",
)  # fmt: skip
WRITTEN: Final = (
    "captions of", "temperature", "recognised", "distinct 1", "distinct 2", "distinct 3", "self-BLEU", "repeated",
    "empty", "cut", "characters",
)  # fmt: skip
BY_HEART: Final = (
    "captions of", "temperature", "verbatim", "on its template", f"with {RUN} known", f"all {RUN}s known", "longest",
)  # fmt: skip
MODELS: Final = ("model", "kind", "parameters", "trained", "device", "commit", "captions judged/s", "folder")
TEMPLATES: Final = ("template", "captions", "bits/char", "accuracy")

HOW_JUDGED: Final = (
    "Bits per character: the length of the code that a model gives the captions, over their characters (every box ends "
    "with a separator, which is one); the same question to models of characters, words and pieces of words. Accuracy "
    "is the share of a model's own tokens that were its first choice: compare it only between models with the same "
    "token. Brackets hold 95 % of 1,000 samples of the captions, drawn with replacement; how far a model is behind the "
    "best is seen in the same samples."
)
HOW_WRITTEN: Final = (
    "A caption of each model for the template of each of the same held-out captions, drawn from all its probabilities "
    "at each temperature. Recognised: a naive Bayes classifier, trained on the words of the training captions, guesses "
    "the template; what people's captions reach is the ceiling. Distinct n: different runs of n words among all. "
    "Self-BLEU: likeness of a caption to all others (BLEU-4, mean). Repeated: says what an earlier one says on the "
    "same template. Characters: mean length. Captions without words count as empty, and nowhere else."
)
HOW_BY_HEART: Final = (
    "Verbatim: stands in the training captions as a whole, on any template and on its own, whatever the case. "
    f"{RUN} known: a run of {RUN} characters that stands there; first the share of captions that hold one, then the "
    "share of all such runs. Longest: mean length of the longest run that stands there, in steps of ten characters. "
    "What people wrote anew says how much of that is common speech."
)


def judged_rows(results: Results) -> Iterator[Row]:
    """A row a model, under `JUDGED`."""
    for model in results.models:
        found = model.likelihood
        yield (
            model.name,
            _interval(found.bits_per_character),
            "" if found.behind_best is None else _interval(found.behind_best),
            _accuracy(found.accuracy),
            model.unit,
            f"{found.perplexity_per_character:.3f}",
            f"{found.perplexity_per_token:,.3f}",
            f"{found.loss_per_token:.4f}",
        )


def model_rows(results: Results) -> Iterator[Row]:
    """A row a model, under `MODELS`; what its folder does not tell is left blank."""
    for model in results.models:
        trained, found = model.trained, model.likelihood
        yield (
            model.name,
            model.kind,
            f"{model.parameters:,}",
            "" if trained.seconds is None else f"{trained.seconds:,.0f} s",
            trained.on,
            trained.commit or "",
            f"{found.captions / found.seconds:,.0f}",
            model.folder,
        )


def written_rows(results: Results) -> Iterator[Row]:
    """The real captions, and a row a model and temperature, under `WRITTEN`; none if nothing was written."""
    for name, temperature, found in _sheaves(results):
        yield (
            name,
            temperature,
            percent(found.recognised),
            *(f"{each:.3f}" for each in found.distinct),
            f"{found.self_bleu:.3f}",
            *map(percent, (found.repeated, found.empty, found.cut)),
            f"{found.characters:.1f}",
        )


def by_heart_rows(results: Results) -> Iterator[Row]:
    """The same, under `BY_HEART`."""
    for name, temperature, found in _sheaves(results):
        shares = (found.verbatim, found.on_template, found.runs, found.remembered)
        yield name, temperature, *map(percent, shares), f"{found.longest:.1f}"


def template_rows(templates: tuple[TemplateMetrics, ...]) -> Iterator[Row]:
    """A row a template, under `TEMPLATES`."""
    for each in templates:
        yield each.name, f"{each.captions:,}", f"{each.bits_per_character:.3f}", percent(each.accuracy)


def warnings(results: Results) -> Iterator[str]:
    """What makes figures less than they seem, a sentence each."""
    for model in results.models:
        unknown = model.likelihood.unknown_characters
        if unknown:
            yield (
                f"{model.name} does not know {unknown:,} of the {results.characters:,} characters: they are spelled, "
                "at the cost of a character of all Unicode each and of saying where they stand, and count as wrong."
            )
        if model.trained.dataset not in (None, results.digest):
            yield (
                f"{model.name} learned from another dataset ({model.trained.dataset}): what is held out here may be "
                "among what it learned."
            )


def percent(share: float) -> str:
    """A share in per cent."""
    return f"{100 * share:.1f} %"


def _accuracy(each: Interval) -> str:
    return f"{100 * each.value:.2f} % ({100 * each.low:.2f}–{100 * each.high:.2f})"


def _interval(each: Interval) -> str:
    return f"{each.value:.3f} ({each.low:.3f}–{each.high:.3f})"


def _sheaves(results: Results) -> Iterator[tuple[str, str, CaptionSetMetrics]]:
    if results.real is not None:
        yield "people", "", results.real
    for model in results.models:
        for temperature, found in model.sweep.items():
            yield model.name, f"{temperature:g}", found
