"""Speed and errors of the language and profanity filters against a naive loop.

    python -m bench.dataset_filters --data ../shared/data

The naive loop calls `langdetect.detect(text) == "en"` and `better_profanity.profanity.contains_profanity(text)` per
caption. Both ways share the other cleaning steps. Speed is captions per processor second; the two take turns, so that
drift of the machine affects both. Errors are those on the half of the labels that was not used for tuning
(bench/dataset_labels.md).
"""

import argparse
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from bench.dataset_labels import (
    Labelled,
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


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds the captions")
    parser.add_argument(
        "--naive", type=int, default=800, help="captions for the naive loop; ours gets 50 times as many"
    )
    options = parser.parse_args()
    console = Console(width=150)
    table = Table(title="language and profanity of captions", box=SIMPLE)
    for column in ("part", "who", "measured", "goal"):
        table.add_column(column)
    for row in filter_rows(options.data, options.naive):
        table.add_row(*row.cells)
        console.print("  ", row.part, row.who, dict(row.figures))
    console.print(table)


def filter_rows(data: Path, naive: int) -> Iterator[Row]:
    """Yield the rows as they are measured. naive: number of captions for the naive loop."""
    yield from _speed(data, naive)
    labels = [row for row in read_labels(data) if row.reported]
    yield from _languages(data, labels)
    yield from _profanities(data, labels)


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
    return bool(_better_profanity()(text))


@cache
def _better_profanity() -> Callable[[str], bool]:
    from better_profanity import profanity

    profanity.load_censor_words()
    contains: Callable[[str], bool] = profanity.contains_profanity
    return contains


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
    best = None
    for who, judge in judges.items():
        kept = {row.id: judge(row.boxes) for row in labels if row.sample != "profanity"}
        rows = [row for row in labels if row.id in kept]
        rate = error_rate(rows, "language", is_doubted, share, _wrong_language(kept))
        lost = [row for row in rows if row.language == "en" and not kept[row.id]]
        passed = [row for row in rows if row.language == "other" and kept[row.id]]
        nameless = [row for row in rows if row.language == "none" and not kept[row.id]]
        best = rate.weighted if best is None else best
        yield Row(
            "language",
            who,
            {
                "errors, random sample": _of(rate.random),
                f"errors, doubtful ({100 * share:.1f} % of the data)": _of(rate.enriched),
                "errors, weighted": f"{100 * rate.weighted:.2f} %",
                "English lost": _of((len(lost), sum(row.language == "en" for row in rows))),
                "others kept": _of((len(passed), sum(row.language == "other" for row in rows))),
                "no language, lost (no error)": _of((len(nameless), sum(row.language == "none" for row in rows))),
            },
            "fewer errors than naive" if who.startswith("naive") else "",
            best < rate.weighted if who.startswith("naive") else None,
        )


def _wrong_language(kept: dict[str, bool]) -> Callable[[Labelled], bool]:
    return lambda row: row.language != "none" and kept[row.id] != (row.language == "en")


def _profanities(data: Path, labels: Sequence[Labelled]) -> Iterator[Row]:
    share = stratum_share(data, matches_pattern)
    everything, default = WordList(TIERS), WordList(load_config(environment={}).dataset.profanity_tiers)
    any_tier, bad = {*TIERS}, {"strong", "slur"}
    judges: list[tuple[str, set[str], Callable[[str], bool]]] = [
        ("ours, every tier", {*any_tier}, lambda text: bool(everything.find(text))),
        ("naive: better_profanity", {*any_tier}, contains_profanity),
        ("ours, strong and slur (default)", bad, lambda text: bool(default.find(text))),
        ("naive, for strong and slur", bad, contains_profanity),
    ]
    rows = [row for row in labels if row.sample != "language"]
    ours = 0.0
    for who, wanted, judge in judges:
        found = {row.id: judge("\n".join(row.boxes)) for row in rows}
        wrong = _wrong_profanity(found, wanted)
        rate = error_rate(rows, "profanity", matches_pattern, share, wrong)
        missed, flagged = (
            [row for row in rows if wrong(row) and found[row.id] is is_found] for is_found in (False, True)
        )
        positive = sum(row.profanity in wanted for row in rows)
        ours = rate.weighted if who.startswith("ours") else ours
        yield Row(
            "profanity",
            who,
            {
                "errors, random sample": _of(rate.random),
                f"errors, pattern ({100 * share:.1f} % of the data)": _of(rate.enriched),
                "errors, weighted": f"{100 * rate.weighted:.2f} %",
                "missed": _of((len(missed), positive)),
                "false alarms": _of((len(flagged), len(rows) - positive)),
            },
            "" if who.startswith("ours") else "fewer errors than naive",
            None if who.startswith("ours") else ours < rate.weighted,
        )


def _wrong_profanity(found: dict[str, bool], wanted: set[str]) -> Callable[[Labelled], bool]:
    return lambda row: found[row.id] != (row.profanity in wanted)


def _of(counted: tuple[int, int]) -> str:
    return f"{counted[0]}/{counted[1]}"


def _caption(boxes: Sequence[str]) -> Caption:
    return Caption("imgflip:1", "imgflip", "t", "Name", "slug", tuple(boxes), False, "")


if __name__ == "__main__":
    main()
