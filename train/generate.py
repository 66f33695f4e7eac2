"""The stage that writes captions with a trained model."""

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from memeloom.configs.errors import ConfigError, MemeloomError
from memeloom.configs.progress import Progress
from memeloom.configs.schema import Config, Generate
from memeloom.dataset.manifest import DatasetTemplate
from memeloom.dataset.pixels import rgb_pixels
from memeloom.train.contract import Captioner, Prompt
from memeloom.train.decoding.draft import Written
from memeloom.train.decoding.method import CERTAIN, Write, open_method
from memeloom.train.decoding.safe import Censor
from memeloom.train.model_folder import load_model

MOST_FREQUENT = 3
# The template's id of captions for a picture that is not a known template's.
IMAGE = "image"
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class GeneratedCaption:
    """A caption for a template.

    boxes: one text a box of the template; some may be empty, never all.
    score: geometric mean of the probabilities that the model gave the tokens (characters, words) it wrote, 0 to 1;
        0.5 is a model that was torn between two each time. Scores of models with other tokens do not compare.
    """

    template_id: str
    template_name: str
    boxes: tuple[str, ...]
    score: float


def generate_captions(config: Config, progress: Progress) -> list[GeneratedCaption]:
    """Write `generate.captions` different captions for each of `generate.templates`; greedy writes one.

    With `generate.image` they are for that picture instead, whatever it shows. With `generate.boxes` a template may be
    one that the model never learned; kinds that read its name make something of that, others write for any.

    Searched ones come best first. Captions that are empty, or that say what another on their template says, are drawn
    anew, a few times; the progress counts those left out as ``empty`` and ``repeated``, and with `generate.safe` as
    ``refused`` how often a word was.

    Raises:
        NotAModel: no model in `generate.model`, or a damaged one.
        ConfigError: `generate.image` cannot be read, or is for a model that looks at no pictures.
        MemeloomError: an unknown template, a start text that leaves no box to fill or says what is refused, or only
            empty captions.
    """
    wishes = config.generate
    model = load_model(Path(wishes.model))
    looked_at = None if wishes.image is None else _looked_at(model, wishes)
    templates = _chosen(model.templates, wishes) if looked_at is None else [looked_at.template]
    start = _fitting_start(model, templates, wishes.start, wishes.max_characters)
    censor = Censor.of(config.dataset, model) if wishes.safe else None
    if censor is not None and not censor.passes(start):
        raise MemeloomError(
            "generate.start says a word that generate.safe refuses; change it, or dataset.profanity_allow"
        )
    rounds = 1 if wishes.method in CERTAIN else _ROUNDS
    most = 1 if wishes.method == "greedy" else wishes.captions
    progress.start("generate", len(templates) * most, "captions")
    prompts = [Prompt(template, start, looked_at.picture if looked_at else None) for template in templates]
    found, empty = _different(
        open_method(model, wishes, np.random.default_rng(wishes.seed), censor), prompts, most, rounds
    )
    written = [caption for captions in found for caption in captions]
    missing = len(prompts) * most - len(written)
    refused = {} if censor is None else {"refused": censor.refused}
    progress.advance(
        len(prompts) * most,
        written=len(written),
        empty=min(empty, missing),
        repeated=max(missing - empty, 0),
        **refused,
    )
    progress.finish()
    if not written:
        raise MemeloomError(f"{wishes.model}: {_why_empty(wishes, censor)}")
    return [GeneratedCaption(made.template.id, made.template.name, made.texts, made.score) for made in written]


def _different(write: Write, prompts: Sequence[Prompt], most: int, rounds: int) -> tuple[list[list[Written]], int]:
    """Up to `most` captions for each prompt, none empty, none twice; and how many were empty in the last round."""
    found: list[dict[tuple[str, ...], Written]] = [{} for _ in prompts]
    empty = 0
    for _ in range(rounds):
        lacking = [at for at, captions in enumerate(found) if len(captions) < most]
        if not lacking:
            break
        made = write([prompts[at] for at in lacking], most)
        empty = sum(caption.empty for captions in made for caption in captions)
        for at, captions in zip(lacking, made, strict=True):
            new = [caption for caption in captions if not caption.empty and caption.texts not in found[at]]
            found[at] |= {caption.texts: caption for caption in new}
    return [list(captions.values())[:most] for captions in found], empty


def _why_empty(wishes: Generate, censor: Censor | None) -> str:
    if censor is not None and censor.refused:
        return f"no caption was left, and {censor.refused} words were refused; set generate.safe=false or allow some"
    bolder = " or raise generate.min_score" if wishes.method in ("threshold", "sampled-beam") else ""
    return f"every caption came out empty; train longer{bolder}"


def _looked_at(model: Captioner, wishes: Generate) -> Prompt:
    """The picture that is wished for, as a template of its own with as many boxes as most captions have."""
    path = Path(wishes.image or "")
    if not model.looks:
        raise ConfigError(f"generate.image: {wishes.model} is a {model.kind} that looks at no pictures")
    if wishes.templates:
        raise ConfigError("generate.image: a picture is captioned in place of templates; name one or the other")
    try:
        picture = rgb_pixels(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"generate.image: {path}: {error.strerror or error}") from error
    except MemeloomError as error:
        raise ConfigError(f"generate.image: {path}: {error}") from error
    boxes: Counter[int] = Counter()
    for template in model.templates:
        boxes[template.boxes] += template.captions
    return Prompt(_stranger(IMAGE, path.name, wishes.boxes or boxes.most_common(1)[0][0]), picture=picture)


def _stranger(template_id: str, name: str, boxes: int) -> DatasetTemplate:
    """A template that no model knows."""
    return DatasetTemplate(
        id=template_id, name=name, slug=template_id, captions=0, boxes=boxes, box_count=None, geometry=(),
        image_key=None,
    )  # fmt: skip


def _chosen(known: Sequence[DatasetTemplate], wishes: Generate) -> list[DatasetTemplate]:
    """The templates that are wished for by id, slug or name, each once; the most frequent ones if none is."""
    chosen = _named(known, wishes) if wishes.templates else list(known[:MOST_FREQUENT])
    if wishes.boxes is not None:
        chosen = [template.model_copy(update={"boxes": wishes.boxes}) for template in chosen]
    return list({template.id: template for template in chosen}.values())


def _named(known: Sequence[DatasetTemplate], wishes: Generate) -> list[DatasetTemplate]:
    by_text: dict[str, DatasetTemplate] = {}
    for kind in ("name", "slug", "id"):
        for template in reversed(known):  # the most frequent one wins a name that several have
            by_text[getattr(template, kind).casefold()] = template
    unknown = [wish for wish in wishes.templates if wish.casefold() not in by_text]
    if wishes.boxes is not None:
        by_text |= {wish.casefold(): _stranger(wish, wish, wishes.boxes) for wish in unknown}
    elif unknown:
        near = difflib.get_close_matches(unknown[0].casefold(), by_text, n=9, cutoff=0.4) or list(by_text)
        names = list(dict.fromkeys(by_text[text].name for text in near))[:3]
        raise MemeloomError(
            f"unknown template {unknown[0]!r}; the nearest that the model knows: {', '.join(names)}; "
            "to write for a new one all the same, set generate.boxes"
        )
    return [by_text[wish.casefold()] for wish in wishes.templates]


def _fitting_start(model: Captioner, templates: Sequence[DatasetTemplate], start: str, most: int) -> str:
    """`start` in the letters that the model learned."""
    start = model.fitting(start)
    if len(start) >= most:
        raise MemeloomError(f"generate.start has {len(start)} characters, generate.max_characters allows {most}")
    for template in templates:
        if start.count(model.separator) >= template.boxes:
            raise MemeloomError(f"generate.start fills all {template.boxes} boxes of {template.name!r} already")
    return start
