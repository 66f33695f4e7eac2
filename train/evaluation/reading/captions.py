"""Captions to be read: of people, held out, and of models on the same templates."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from memeloom.configs.errors import MemeloomError
from memeloom.configs.progress import Progress
from memeloom.configs.schema import Config
from memeloom.dataset.manifest import DatasetTemplate, Manifest
from memeloom.dataset.schema import Split
from memeloom.dataset.texts import texts_of
from memeloom.train.checks import check_backend
from memeloom.train.contract import CaptionWriter
from memeloom.train.evaluation.overlap import normal
from memeloom.train.evaluation.reading.sheet import ReadCaption
from memeloom.train.generate import GeneratedCaption, NothingWritten, generate_captions
from memeloom.train.ranking.ranker import open_ranker
from memeloom.train.runtime import has_runtime, open_captioner


def people_captions(
    folder: Path, manifest: Manifest, split: Split, *, count: int, longest: int, seed: int
) -> list[ReadCaption]:
    """Return `count` different captions of `split`, drawn by `seed`; fewer if there are no more.

    longest: characters, separators included; a longer caption could not be a model's.

    Raises:
        DamagedRecords: a shard is damaged.
        MemeloomError: all captions are longer.
    """
    templates = {template.id: template for template in manifest.templates}
    every = list(_texts(folder, manifest, split))
    found: dict[tuple[str, str], ReadCaption] = {}
    for at in np.random.default_rng(seed).permutation(len(every)):
        if len(found) == count:
            break
        template, text = every[at]
        caption = ReadCaption.of(templates[template], text.split(manifest.separator))
        if caption.boxes and len(text) - len(manifest.separator) <= longest:
            found.setdefault((template, normal(caption.boxes)), caption)
    if not found:
        raise MemeloomError(f"{folder}: every {split} caption has more than generate.max_characters={longest}")
    return list(found.values())


def model_captions(
    config: Config, folder: Path, people: Sequence[ReadCaption], progress: Progress
) -> list[ReadCaption]:
    """Return as many captions for each template as `people` wrote, as `memeloom generate` writes them.

    They are fewer if the model repeats itself or writes nothing that can be shown.

    Raises:
        NotAModel: no model in `folder`, or a damaged one.
        NothingWritten: no caption at all.
    """
    if not has_runtime(folder):
        check_backend()
    model, ranker = open_captioner(folder, progress), open_ranker(folder)
    templates = {caption.template.id: caption.template for caption in people}
    wanted = Counter(caption.template.id for caption in people)
    written, refused = [], None
    for at, (asked, settings) in enumerate(_calls(model, templates, wanted)):
        chosen = {**settings, "model": str(folder), "seed": config.evaluate.seed + at, "start": "", "image": None}
        called = config.model_copy(update={"generate": config.generate.model_copy(update=chosen)})
        try:
            made = generate_captions(called, progress, model, ranker)
        except NothingWritten as error:
            refused = error
            continue
        written += [ReadCaption.of(_template(asked, caption), caption.boxes) for caption in made]
    if not written and refused is not None:
        raise refused
    return written


def _texts(folder: Path, manifest: Manifest, split: Split) -> Iterator[tuple[str, str]]:
    """Yield template and text of each caption."""
    for texts in texts_of(folder, manifest, split):
        end = 0
        for template, length in zip(texts.templates, texts.lengths.tolist(), strict=True):
            begin, end = end, end + length
            yield template, texts.text[begin:end]


def _calls(
    model: CaptionWriter, templates: Mapping[str, DatasetTemplate], wanted: Mapping[str, int]
) -> Iterator[tuple[list[DatasetTemplate], dict[str, Any]]]:
    """Yield the templates of each call of `generate_captions`, and its settings.

    A call writes the same number for each of its templates. One that the model did not learn is named, with its boxes.
    """
    known = {template.id for template in model.templates}
    together: dict[int, list[DatasetTemplate]] = defaultdict(list)
    for template_id, count in wanted.items():
        template = templates[template_id]
        if template_id in known:
            together[count].append(template)
        else:
            yield [template], {"templates": (template.name,), "captions": count, "boxes": template.boxes}
    for count, some in together.items():
        yield some, {"templates": tuple(each.id for each in some), "captions": count, "boxes": None}


def _template(asked: Sequence[DatasetTemplate], caption: GeneratedCaption) -> DatasetTemplate:
    """Return the template of the dataset that `caption` was asked for."""
    return next((each for each in asked if each.id == caption.template_id), asked[0])
