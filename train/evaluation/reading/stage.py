"""The stages of a reading: write the sheet, and report what its readers say."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from memeloom.configs.errors import MemeloomError
from memeloom.configs.extras import require
from memeloom.configs.outputs import write_json, write_text
from memeloom.configs.progress import SILENT, Progress
from memeloom.configs.runs import Summary, commit
from memeloom.configs.schema import Config
from memeloom.dataset.formats.registry import check_readable
from memeloom.dataset.manifest import read_manifest
from memeloom.dataset.remote.mirror import local_folder
from memeloom.train.evaluation.held_out import check_held_out
from memeloom.train.evaluation.reading.captions import model_captions, people_captions
from memeloom.train.evaluation.reading.page import PAGE, render_reading
from memeloom.train.evaluation.reading.ratings import PATTERN, Ratings
from memeloom.train.evaluation.reading.report import render_text
from memeloom.train.evaluation.reading.results import Reading, join
from memeloom.train.evaluation.reading.sheet import (
    KEY,
    PEOPLE,
    SHEET,
    ReadCaption,
    mix,
    read_key,
    read_sheet,
    write_mixed,
)
from memeloom.train.evaluation.stage import folder_names
from memeloom.train.model_folder import NotAModel
from memeloom.train.ranking.ranker import open_ranker
from memeloom.train.ranking.words import Text, hash_words
from memeloom.train.runtime import has_runtime

METRICS: Final = "reading-metrics.json"
TEXT: Final = "reading-report.md"
# Settings of `generate` that a reading chooses itself.
_CHOSEN = {"model", "templates", "captions", "boxes", "start", "seed", "image", "picture", "table"}


def write_sheet(config: Config, progress: Progress = SILENT) -> Summary:
    """Write sheet, page and key of captions of people and of `evaluate.models` into `evaluate.output`.

    Models write as `memeloom generate` does, one in memory at a time, for the templates of the people's captions.

    Raises:
        NotADataset, DamagedRecords: no dataset, or a damaged one.
        NotAModel: no model in one of the folders, or a damaged one.
        NothingWritten: a model wrote no caption that can be shown.
        MemeloomError: no models named, no captions held out, ratings in the folder, or a dataset replaced meanwhile.
    """
    started = time.perf_counter()
    settings, output = config.evaluate, Path(config.evaluate.output)
    folders = [Path(folder) for folder in dict.fromkeys(settings.models)]
    _check(folders, output)
    dataset = local_folder(settings.dataset, lambda: config.store, progress)
    manifest = check_held_out(dataset, settings.split)
    check_readable(manifest.format)
    if manifest.images == "template":
        require("pictures")
    count, longest = settings.read_captions, config.generate.max_characters
    people = people_captions(dataset, manifest, settings.split, count=count, longest=longest, seed=settings.seed)
    names = [f"model {name}" if name == PEOPLE else name for name in folder_names(folders)]
    captions = {PEOPLE: people}
    for name, folder in zip(names, folders, strict=True):
        captions[name] = model_captions(config, folder, people, progress)
    about = {
        "dataset": str(dataset),
        "digest": manifest.digest,
        "split": settings.split,
        "seed": settings.seed,
        "commit": commit(),
        "models": {name: str(folder) for name, folder in zip(names, folders, strict=True)},
        "generate": config.generate.model_dump(mode="json", exclude=_CHOSEN),
    }
    mixed = mix(captions, about, settings.seed, _score(folders))
    page = render_reading(mixed, dataset, manifest)
    if read_manifest(dataset) != manifest:
        raise MemeloomError(f"{dataset}: another dataset was written there while it was read; evaluate again")
    write_mixed(output, mixed)
    write_text(output / PAGE, page)
    return Summary(
        "evaluate",
        counts={"captions to read": len(mixed.sheet.items), **{f"of {name}": len(captions[name]) for name in captions}},
        reasons={
            f"not written by {name}: repeated or empty": lacking
            for name in names
            if (lacking := len(people) - len(captions[name]))
        },
        outputs={"page": str(output / PAGE), "sheet": str(output / SHEET), "key (keep it closed)": str(output / KEY)},
        seconds={"total": time.perf_counter() - started},
    )


def report_ratings(config: Config, files: Sequence[Path]) -> tuple[Summary, Reading]:
    """Join ratings with the key in `evaluate.output`, and write the report there.

    files: of ratings; if empty, those beside the sheet.

    Raises:
        NotASheet: no sheet or key in the folder, or damaged ones.
        MemeloomError: no files, one that cannot be read, or no rating of this sheet in them.
    """
    started = time.perf_counter()
    output = Path(config.evaluate.output)
    sheet = read_sheet(output)
    key = read_key(output, sheet)
    paths = list(dict.fromkeys(files or sorted(output.glob(PATTERN))))
    if not paths:
        raise MemeloomError(
            f"{output}: no ratings here (no {PATTERN}); rate on {PAGE}, or with memeloom evaluate --rate"
        )
    ratings = Ratings()
    for path in paths:
        ratings.read(path, sheet)
    if not ratings.found:
        raise MemeloomError(f"no rating of {output / SHEET}: {ratings.first or f'{paths[0]} is empty'}")
    reading = join(key, ratings)
    write_json(output / METRICS, reading.as_json())
    write_text(output / TEXT, render_text(reading))
    summary = Summary(
        "evaluate",
        counts={"captions rated": reading.rated, "ratings": len(ratings.found), "raters": len(reading.raters)},
        reasons={f"lines skipped: {reason}": count for reason, count in reading.skipped.items()},
        outputs={"report": str(output / TEXT), "metrics": str(output / METRICS)},
        seconds={"total": time.perf_counter() - started},
    )
    return summary, reading


def _score(folders: Sequence[Path]) -> Callable[[Sequence[ReadCaption]], Sequence[float]] | None:
    """Return what the first ranker that knows votes promises captions, in standard deviations of votes; or None."""
    rankers = (open_ranker(folder) for folder in folders)
    ranker = next((each for each in rankers if each is not None and each.knows_votes), None)
    if ranker is None:
        return None
    return lambda captions: ranker.votes(
        hash_words([Text(caption.template.id, caption.boxes) for caption in captions])
    ).tolist()


def _check(folders: Sequence[Path], output: Path) -> None:
    if not folders:
        raise MemeloomError("no models to read: name their folders, or set evaluate.models")
    rated = sorted(output.glob(PATTERN))
    if rated:
        raise MemeloomError(
            f"{rated[0]}: ratings of the sheet in this folder; choose another with --output, or move them"
        )
    for folder in folders:
        if not folder.is_dir():
            raise NotAModel(f"{folder}: no model here; train one with `memeloom train`")
        has_runtime(folder)
