"""The stage that evaluates models: judges them by held-out captions, lets them write, and reports."""

import json
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from memeloom.configs.errors import MemeloomError
from memeloom.configs.outputs import write_json, write_text
from memeloom.configs.progress import SILENT, Progress
from memeloom.configs.runs import Summary, commit
from memeloom.configs.schema import Config, Evaluate
from memeloom.train.contract import Captioner
from memeloom.train.evaluation.held_out import HeldOut, read_held_out
from memeloom.train.evaluation.leaderboard import add_to_leaderboard, check_leaderboard
from memeloom.train.evaluation.likelihood import Scores, best_of, figures, judged
from memeloom.train.evaluation.page import PAGE, render_page
from memeloom.train.evaluation.results import ModelResult, Results, Trained
from memeloom.train.evaluation.sweep import CaptionSet, CaptionSetMetrics, measured, real_captions, written_captions
from memeloom.train.evaluation.text import REPORT, render_text
from memeloom.train.model_folder import load_model, read_card

METRICS = "metrics.json"


@dataclass(frozen=True, slots=True)
class _Heard:
    """What a model said: the scores of the captions, and a caption_set a temperature. The model itself is let go.

    trained: how the weights that said it came to be.
    """

    name: str
    folder: Path
    kind: str
    unit: str
    parameters: int
    scores: Scores
    caption_sets: Mapping[float, CaptionSet]
    trained: Trained


def evaluate_models(config: Config, progress: Progress = SILENT) -> Summary:
    """Evaluate `evaluate.models` side by side; leave page, Markdown and `metrics.json` in `evaluate.output`.

    One model is in memory at a time, and of the dataset the held-out captions.

    Raises:
        NotADataset, DamagedRecords: no dataset, or a damaged one.
        NotAModel: no model in one of the folders, or a damaged one.
        MemeloomError: no models named, no captions held out, a likelihood that is not a number, a file that is no
            leaderboard, or a dataset or a model that was replaced while it was read.
    """
    began = time.perf_counter()
    settings = config.evaluate
    folders = [Path(folder) for folder in dict.fromkeys(settings.models)]
    if not folders:
        raise MemeloomError("no models to evaluate: name their folders, or set evaluate.models")
    if settings.leaderboard is not None:
        # What is wrong with it shows before hours of work.
        check_leaderboard(Path(settings.leaderboard))
    held = read_held_out(Path(settings.dataset), settings.split, settings.captions, settings.seed)
    real = real_captions(held, settings.written, settings.seed)
    seconds = {"read": time.perf_counter() - began}
    heard = [
        _hear(config, folder, name, held, real, progress)
        for folder, name in zip(folders, _names(folders), strict=True)
    ]  # fmt: skip
    seconds["judge"] = sum(each.scores.seconds for each in heard)
    seconds["write"] = sum(caption_set.seconds for each in heard for caption_set in each.caption_sets.values())
    compared = time.perf_counter()
    found = _findings(settings, held, heard, _compared(held, real, heard, progress))
    seconds["compare"] = time.perf_counter() - compared
    outputs = _report(settings, found)
    best = found.models[0].likelihood
    return Summary(
        "evaluate",
        counts={
            "models": len(heard),
            "captions": len(held.captions) * len(heard),
            "characters": found.characters * len(heard),
            "captions written": sum(
                len(caption_set.captions) for each in heard for caption_set in each.caption_sets.values()
            ),
            "bits per character": round(best.bits_per_character.value, 4),
            "accuracy": round(best.accuracy.value, 4),
        },
        outputs=outputs,
        seconds={**seconds, "total": time.perf_counter() - began},
    )


def _hear(config: Config, folder: Path, name: str, held: HeldOut, real: CaptionSet, progress: Progress) -> _Heard:
    """Let the model in `folder` judge and write."""
    settings = config.evaluate
    model, trained = _loaded(folder)
    progress.start(f"judge {name}", len(held.captions), "captions")
    scores = judged(model, held, progress.advance)
    progress.finish()
    if not math.isfinite(scores.nats.sum()):
        raise MemeloomError(f"{folder}: the likelihood that the model gives a caption is not a number; train again")
    caption_sets = {}
    if real.captions:
        progress.start(f"write with {name}", len(settings.temperatures) * len(real.captions), "captions")
        for temperature in sorted(set(settings.temperatures)):
            most = config.generate.max_characters
            caption_sets[temperature] = written_captions(model, held.templates, real, temperature, most, settings.seed)
            progress.advance(len(real.captions))
        progress.finish()
    return _Heard(name, folder, model.kind, model.unit, _parameters(model), scores, caption_sets, trained)


def _compared(
    held: HeldOut, real: CaptionSet, heard: Sequence[_Heard], progress: Progress
) -> Iterator[CaptionSetMetrics]:
    """The figures of the real captions, and of each caption_set of each model in order; none if nothing was written."""
    if not real.captions:
        return iter(())
    progress.start("compare with training", held.manifest.splits["train"], "captions")
    caption_sets = [real, *(caption_set for each in heard for caption_set in each.caption_sets.values())]
    found = measured(held, caption_sets, progress.advance)
    progress.finish()
    return iter(found)


def _findings(
    settings: Evaluate, held: HeldOut, heard: Sequence[_Heard], found: Iterator[CaptionSetMetrics]
) -> Results:
    best = best_of([each.scores for each in heard])
    real = next(found, None)
    models = [
        ModelResult(
            name=each.name,
            folder=str(each.folder),
            kind=each.kind,
            unit=each.unit,
            parameters=each.parameters,
            trained=each.trained,
            likelihood=figures(each.scores, best, held, settings.seed),
            sweep=dict(zip(each.caption_sets, islice(found, len(each.caption_sets)), strict=True)),
        )
        for each in heard
    ]
    return Results(
        dataset=str(held.folder),
        digest=held.manifest.digest,
        split=held.split,
        captions=len(held.captions),
        characters=held.captions.examples,
        templates=len(set(held.captions.templates.tolist())),
        seed=settings.seed,
        commit=commit(),
        real=real,
        models=tuple(sorted(models, key=lambda model: model.likelihood.bits_per_character.value)),
    )


def _report(settings: Evaluate, found: Results) -> dict[str, str]:
    """Write what was found; the files by name."""
    folder = Path(settings.output)
    write_text(folder / PAGE, render_page(found))
    write_text(folder / REPORT, render_text(found))
    write_json(folder / METRICS, found.as_json())
    outputs = {"report": str(folder / PAGE), "as Markdown": str(folder / REPORT), "metrics": str(folder / METRICS)}
    if settings.leaderboard is not None:
        add_to_leaderboard(Path(settings.leaderboard), found)
        outputs["leaderboard"] = settings.leaderboard
    return outputs


def _names(folders: Sequence[Path]) -> list[str]:
    """The last part of each path, or the whole of it where several end alike."""
    last = Counter(folder.resolve().name for folder in folders)
    return [folder.resolve().name if last[folder.resolve().name] == 1 else str(folder) for folder in folders]


def _parameters(model: Captioner) -> int:
    return sum(int(network.count_params()) for network in model.networks.values())


def _loaded(folder: Path) -> tuple[Captioner, Trained]:
    """The model in `folder`, and what its training left in its metrics: both of one epoch, for that may go on there."""
    card = read_card(folder)
    model, trained = load_model(folder), _trained(folder)
    if read_card(folder) != card:
        raise MemeloomError(f"{folder}: another model was written there while it was read; evaluate again")
    return model, trained


def _trained(folder: Path) -> Trained:
    metrics: Mapping[str, Any] = json.loads((folder / METRICS).read_text(encoding="utf-8"))
    device, count = metrics.get("device"), metrics.get("devices", 1)
    return Trained(
        seconds=metrics.get("train_seconds"),
        device=device if count == 1 else f"{count} × {device}",
        backend=metrics.get("backend"),
        dataset=metrics.get("dataset"),
        commit=metrics.get("commit"),
    )
