"""The stage that writes captions with a trained model."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from configs.errors import MemeloomError
from configs.progress import Progress
from configs.schema import Config
from dataset.manifest import DatasetTemplate
from train.contract import Captioner, Prompt
from train.decoding.choose import by_threshold
from train.decoding.write import Written, write_captions
from train.model_folder import load_model

MOST_FREQUENT = 3
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class GeneratedCaption:
    """A caption for a template.

    boxes: one text a box of the template; some may be empty, never all.
    score: geometric mean of the probabilities of the characters drawn, 0 to 1.
    """

    template_id: str
    template_name: str
    boxes: tuple[str, ...]
    score: float


def generate_captions(config: Config, progress: Progress) -> list[GeneratedCaption]:
    """Write `generate.captions` captions for each of `generate.templates`.

    Empty captions are drawn anew, a few times; those that stay empty are counted in the progress as
    ``empty`` and left out.

    Raises:
        NotAModel: no model in `generate.model`, or a damaged one.
        MemeloomError: an unknown template, a start text that leaves no box to fill, or only empty captions.
    """
    wishes = config.generate
    model = load_model(Path(wishes.model))
    templates = _chosen(model.templates, wishes.templates)
    start = _fitting_start(model, templates, wishes.start, wishes.max_characters)
    rng = np.random.default_rng(wishes.seed)
    choose = by_threshold(wishes.min_score)
    slots: list[Written | None] = [None] * (len(templates) * wishes.captions)
    progress.start("generate", len(slots), "captions")
    for _ in range(_ROUNDS):
        missing = [at for at, caption in enumerate(slots) if caption is None]
        if not missing:
            break
        wanted = [Prompt(templates[at // wishes.captions], start) for at in missing]
        made = write_captions(model, wanted, choose, max_characters=wishes.max_characters, rng=rng)
        for at, caption in zip(missing, made, strict=True):
            slots[at] = None if caption.empty else caption
    written = [caption for caption in slots if caption is not None]
    progress.advance(len(slots), written=len(written), empty=len(slots) - len(written))
    progress.finish()
    if not written:
        raise MemeloomError(f"{wishes.model}: every caption came out empty; train longer or raise generate.min_score")
    return [GeneratedCaption(made.template.id, made.template.name, made.texts, made.score) for made in written]


def _chosen(known: Sequence[DatasetTemplate], wishes: Sequence[str]) -> list[DatasetTemplate]:
    """The templates that are wished for by id, slug or name; the most frequent ones if none is."""
    if not wishes:
        return list(known[:MOST_FREQUENT])
    by_text: dict[str, DatasetTemplate] = {}
    for kind in ("name", "slug", "id"):
        for template in reversed(known):  # the most frequent one wins a name that several have
            by_text[getattr(template, kind).casefold()] = template
    unknown = [wish for wish in wishes if wish.casefold() not in by_text]
    if unknown:
        near = difflib.get_close_matches(unknown[0].casefold(), by_text, n=9, cutoff=0.4) or list(by_text)
        names = list(dict.fromkeys(by_text[text].name for text in near))[:3]
        raise MemeloomError(f"unknown template {unknown[0]!r}; the nearest that the model knows: {', '.join(names)}")
    return [by_text[wish.casefold()] for wish in wishes]


def _fitting_start(model: Captioner, templates: Sequence[DatasetTemplate], start: str, most: int) -> str:
    """`start` in the letters that the model learned."""
    start = model.fitting(start)
    if len(start) >= most:
        raise MemeloomError(f"generate.start has {len(start)} characters, generate.max_characters allows {most}")
    for template in templates:
        if start.count(model.separator) >= template.boxes:
            raise MemeloomError(f"generate.start fills all {template.boxes} boxes of {template.name!r} already")
    return start
