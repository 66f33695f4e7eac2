"""Captions that the history shows after each epoch: for what was learned, and for what was never seen."""

from collections.abc import Sequence
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np

from memeloom.dataset.manifest import DatasetTemplate
from memeloom.dataset.pixels import rgb_pixels
from memeloom.dataset.verify import records_of
from memeloom.train.contract import Captioner, Prompt
from memeloom.train.corpus import Dataset
from memeloom.train.decoding.sampling import by_threshold, write_captions

_MIN_SCORE = 0.1
_CHARACTERS = 100


class Samples(NamedTuple):
    """What samples are written for.

    learned: the templates with most captions. unseen: for a model that looks at memes, pictures that were held out;
    else templates that have no captions to learn from, where the dataset is split by template; else learned ones with
    the beginning of captions that were held out.
    by: which of the three `unseen` is.
    """

    learned: tuple[Prompt, ...]
    unseen: tuple[Prompt, ...]
    by: Literal["picture", "template", "beginning"]


def choose_samples(dataset: Dataset, model: Captioner, count: int) -> Samples:
    """`count` prompts of either sort, or as many as there are.

    Raises:
        DamagedRecords, MemeloomError: a held-out picture cannot be read.
    """
    templates = dataset.manifest.templates
    known = set(np.unique(dataset.train.templates).tolist())
    learned = tuple(Prompt(templates[row]) for row in sorted(known)[:count])
    if model.uses_pictures and dataset.manifest.images in ("meme", "inpainted"):
        return Samples(learned, _pictures(dataset, count), "picture")
    held_out = np.unique(dataset.validation.templates).tolist()
    unseen = tuple(Prompt(templates[row]) for row in held_out if row not in known)[:count]
    if unseen:
        return Samples(learned, unseen, "template")
    return Samples(learned, _beginnings(dataset, model, count), "beginning")


def _pictures(dataset: Dataset, count: int) -> tuple[Prompt, ...]:
    """The first held-out memes, each of another picture."""
    templates = {template.id: template for template in dataset.manifest.templates}
    found: dict[str, Prompt] = {}
    shards = (shard for shard in dataset.manifest.shards if shard.split == "validation")
    for record in chain.from_iterable(records_of(dataset.folder, dataset.manifest, shard) for shard in shards):
        if len(found) == count:
            break
        if record.image is not None and record.image_key not in found:
            found[record.image_key] = Prompt(templates[record.template], picture=rgb_pixels(record.image))
    return tuple(found.values())


def _beginnings(dataset: Dataset, model: Captioner, count: int) -> tuple[Prompt, ...]:
    """The first boxes of held-out captions of several, each of another template while there are any."""
    if not count:
        return ()
    separator = dataset.manifest.separator
    found: dict[DatasetTemplate, Prompt] = {}
    for row, text in zip(
        dataset.validation.templates.tolist(), dataset.validation.texts(dataset.alphabet), strict=True
    ):
        template = dataset.manifest.templates[row]
        start, _, rest = text.partition(separator)
        if start and rest and template.boxes > 1 and template not in found and len(start) < _CHARACTERS:
            found[template] = Prompt(template, model.normalize(start + separator))
            if len(found) == count:
                break
    return tuple(found.values())


def write_samples(model: Captioner, prompts: Sequence[Prompt], seed: int, step: int) -> list[str]:
    """A caption for each of `prompts`, by the model as it is: ``template: box / box``."""
    if not prompts:
        return []
    written = write_captions(
        model, prompts, by_threshold(_MIN_SCORE), max_characters=_CHARACTERS, rng=np.random.default_rng([seed, step])
    )
    return [f"{made.template.name}: {' / '.join(made.texts)}" for made in written]
