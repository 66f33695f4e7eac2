"""Speed and errors of the language and profanity filters against a naive loop.

The naive loop calls `langdetect.detect(text) == "en"` and `better_profanity.profanity.contains_profanity(text)` per
caption. Both ways share the other cleaning steps. Speed is captions per processor second; the two take turns, so that
drift of the machine affects both. Errors are those on the half of the labels that was not used for tuning
(bench/dataset_labels.md).
"""

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench.dataset_labels import (
    Labelled,
    Rate,
    error_rate,
    is_doubted,
    matches_pattern,
    read_captions,
    read_labels,
    stratum_share,
)
from bench.rows import Row
from memeloom.configs.load import load_config
from memeloom.dataset.steps.batch import apply_to_batch
from memeloom.dataset.steps.caption import Caption, Outcome, Step
from memeloom.dataset.steps.language import require_language
from memeloom.dataset.steps.profanity import WordList
from memeloom.dataset.steps.registry import build_steps
from memeloom.dataset.steps.tiers import TIERS
from memeloom.engine.steps import Drop, Keep

_ROUNDS = 8
_FASTER = 300


def filter_rows(data: Path, naive: int) -> Iterator[Row]:
    """Yield the rows as they are measured. naive: number of captions for the naive loop."""
    yield from _speed(data, naive)
    everything = read_labels(data)
    labels = [row for row in everything if row.reported]
    yield from _languages(data, labels)
    yield from _profanities(data, labels)
    yield from _fresh([row for row in everything if row.fresh])


def _speed(data: Path, naive: int) -> Iterator[Row]:
    settings = load_config(environment={}).dataset
    others = tuple(name for name in settings.steps if name not in _JUDGED)
    cheap = build_steps(settings.model_copy(update={"steps": others}))
    judging = build_steps(settings.model_copy(update={"steps": ("language", "profanity")}))
    captions = [_caption(boxes) for _, boxes in read_captions(data) if boxes]
    # Spread over the dump, which is sorted by template.
    many = captions[:: max(len(captions) // (50 * naive), 1)]
    clean = [result for result in apply_to_batch(cheap, many) if not isinstance(result, Drop)]
    del captions
    gc.freeze()  # Loading the captions is excluded from both.
    yield from _race("language and profanity", judging, [naive_step], clean, naive)
    yield from _race("all filters", [*cheap, *judging], [*cheap, naive_step], many, naive)


def _race(
    part: str, ours: Sequence[Step], theirs: Sequence[Step], captions: Sequence[Caption], naive: int
) -> Iterator[Row]:
    few = captions[:: max(len(captions) // naive, 1)]
    for steps in (ours, theirs):
        _seconds(steps, few[:20])  # Models are loaded here.
    spent = {"ours": 0.0, "naive": 0.0}
    for at in range(_ROUNDS):
        spent["ours"] += _seconds(ours, captions[at::_ROUNDS])
        spent["naive"] += _seconds(theirs, few[at::_ROUNDS])
    rates = {"ours": len(captions) / spent["ours"], "naive": len(few) / spent["naive"]}
    faster = rates["ours"] / rates["naive"]
    figures = {"captions/s": f"{rates['ours']:,.0f}", "times naive": f"{faster:,.0f}"}
    yield Row(part, "ours", figures, f"≥ {_FASTER} times naive", faster >= _FASTER)
    yield Row(part, "naive", {"captions/s": f"{rates['naive']:,.1f}"})


_JUDGED = {"language", "profanity", "duplicates"}


def naive_step(caption: Caption) -> Outcome:
    """Classify a caption with both packages."""
    text = " ".join(caption.boxes)
    english, profane = detected_english(text), contains_profanity(text)
    return Keep(caption) if english and not profane else Drop("language or profanity")


def detected_english(text: str) -> bool:
    """Return True if langdetect's best guess is English; seeded, so that results are reproducible."""
    from langdetect import DetectorFactory, LangDetectException, detect

    DetectorFactory.seed = 0
    try:
        return bool(detect(text) == "en")
    except LangDetectException:
        return False


def contains_profanity(text: str) -> bool:
    """Return True if better_profanity finds a word."""
    from better_profanity import profanity

    return bool(profanity.contains_profanity(text))


def _seconds(steps: Sequence[Step], captions: Sequence[Caption]) -> float:
    began = time.process_time()
    apply_to_batch(steps, captions)  # As in the builder.
    return time.process_time() - began


def _languages(data: Path, labels: Sequence[Labelled]) -> Iterator[Row]:
    share = stratum_share(data, is_doubted)
    threshold = load_config(environment={}).dataset.language_threshold
    fast, slow = (require_language(["en"], name, threshold) for name in ("py3langid", "langdetect"))
    judges: dict[str, Callable[[Sequence[str]], bool]] = {
        "ours": lambda boxes: isinstance(fast(_caption(boxes)), Keep),
        "ours, langdetect": lambda boxes: isinstance(slow(_caption(boxes)), Keep),
        "naive: langdetect": lambda boxes: detected_english(" ".join(boxes)),
        "langdetect, lower-cased": lambda boxes: detected_english(" ".join(boxes).lower()),
    }
    labels = [row for row in labels if row.sample != "profanity"]
    ours = None
    for who, judge in judges.items():
        kept = {row.id: judge(row.boxes) for row in labels}

        def is_wrong(row: Labelled, kept: dict[str, bool] = kept) -> bool:
            return row.language != "none" and kept[row.id] != (row.language == "en")

        rate = error_rate(labels, "language", is_doubted, share, is_wrong)
        ours = ours or rate
        counted = {
            figure: _of(sum(row.language == language and kept[row.id] is is_kept for row in labels),
                        sum(row.language == language for row in labels))
            for figure, language, is_kept in (("English lost", "en", False), ("others kept", "other", True),
                                              ("no language, lost (no error)", "none", False))
        }  # fmt: skip
        yield _row("language", who, rate, ours, f"doubtful ({100 * share:.1f} % of the data)", counted)


def _profanities(data: Path, labels: Sequence[Labelled]) -> Iterator[Row]:
    share = stratum_share(data, matches_pattern)
    everything, default = WordList(TIERS), WordList(load_config(environment={}).dataset.profanity_tiers)
    bad = {"strong", "slur"}
    judges: list[tuple[str, set[str], Callable[[str], bool]]] = [
        ("ours, every tier", {*TIERS}, lambda text: bool(everything.find(text))),
        ("naive: better_profanity", {*TIERS}, contains_profanity),
        ("ours, strong and slur (default)", bad, lambda text: bool(default.find(text))),
        ("naive, for strong and slur", bad, contains_profanity),
    ]
    labels = [row for row in labels if row.sample != "language"]
    ours = None
    for who, wanted, judge in judges:
        found = {row.id: judge("\n".join(row.boxes)) for row in labels}

        def is_wrong(row: Labelled, found: dict[str, bool] = found, wanted: set[str] = wanted) -> bool:
            return found[row.id] != (row.profanity in wanted)

        rate = error_rate(labels, "profanity", matches_pattern, share, is_wrong)
        ours = rate if who.startswith("ours") else ours
        flagged = sum(is_wrong(row) and found[row.id] for row in labels)
        missed = sum(map(is_wrong, labels)) - flagged
        positive = sum(row.profanity in wanted for row in labels)
        counted = {"missed": _of(missed, positive), "false alarms": _of(flagged, len(labels) - positive)}
        yield _row("profanity", who, rate, ours or rate, f"pattern ({100 * share:.1f} % of the data)", counted)


def _fresh(labels: Sequence[Labelled]) -> Iterator[Row]:
    """Yield precision and recall on the captions that nothing was chosen on."""
    settings = load_config(environment={}).dataset
    before = settings.steps[: settings.steps.index("language")]
    steps = build_steps(settings.model_copy(update={"steps": (*before, "language")}))
    words = WordList(settings.profanity_tiers)
    language: Counter[tuple[bool, str]] = Counter()
    profanity: Counter[tuple[bool, bool]] = Counter()
    for row in labels:
        (found,) = apply_to_batch(steps, [_caption(row.boxes)])
        language[isinstance(found, Drop), row.language] += 1
        profanity[bool(words.find("\n".join(row.boxes))), row.profanity in {"strong", "slur"}] += 1
    dropped = sum(n for (is_dropped, _), n in language.items() if is_dropped)
    yield Row("language, fresh labels", "ours", {
        "precision": _of(language[True, "other"], dropped),
        "dropped, in no language": _of(language[True, "none"], dropped),
        "kept, in another language": _of(language[False, "other"], len(labels) - dropped),
    })  # fmt: skip
    yield Row("profanity, fresh labels", "ours", {
        "precision": _of(profanity[True, True], profanity[True, True] + profanity[True, False]),
        "recall": _of(profanity[True, True], profanity[True, True] + profanity[False, True]),
    })  # fmt: skip


def _row(part: str, who: str, rate: Rate, ours: Rate, stratum: str, counted: dict[str, str]) -> Row:
    figures = {
        "errors, random sample": _of(*rate.random),
        f"errors, {stratum}": _of(*rate.enriched),
        "errors, weighted": f"{100 * rate.weighted:.2f} %",
        **counted,
    }
    if not who.startswith("naive"):
        return Row(part, who, figures)
    return Row(part, who, figures, "fewer errors than naive", ours.weighted < rate.weighted)


def _of(count: int, whole: int) -> str:
    return f"{count}/{whole}"


def _caption(boxes: Sequence[str]) -> Caption:
    return Caption("imgflip:1", "imgflip", "t", "Name", "slug", tuple(boxes))
