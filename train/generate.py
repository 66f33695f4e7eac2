"""The stage that writes captions with a trained model."""

import difflib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from memeloom.configs.errors import ConfigError, MemeloomError
from memeloom.configs.progress import SILENT, Progress
from memeloom.configs.schema import Config, Generate
from memeloom.dataset.manifest import DatasetTemplate
from memeloom.dataset.pixels import rgb_pixels
from memeloom.train.contract import Captioner, Prompt
from memeloom.train.decoding.beam import Search, search_captions
from memeloom.train.decoding.draft import WordFilter, WrittenCaption
from memeloom.train.decoding.sampling import Chooser, by_sampling, by_threshold, greedily, write_captions
from memeloom.train.model_folder import load_model

MOST_FREQUENT = 3
# The template's id of captions for a picture that is not a known template's.
IMAGE = "image"
_ROUNDS = 4


# Asked again, these write the same.
CERTAIN: Final = ("greedy", "beam")

# Prompts, and how many captions are wanted for each of them, to those written for each: the searched ones different and
# best first, the drawn ones as chance has it.
Write: TypeAlias = Callable[[Sequence[Prompt], int], list[list[WrittenCaption]]]


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


def generate_captions(
    config: Config, progress: Progress = SILENT, model: Captioner | None = None
) -> list[GeneratedCaption]:
    """Write `generate.captions` different captions for each of `generate.templates`; greedy writes one.

    With `generate.image` they are for that picture instead, whatever it shows. With `generate.boxes` a template may be
    one that the model never learned; kinds that read its name make something of that, others write for any.

    Searched ones come best first. Captions that are empty, or that say what another on their template says, are drawn
    anew, a few times; the progress counts those left out as ``empty`` and ``repeated``, and with `generate.safe` as
    ``refused`` how often a word was.

    model: a loaded model; None loads `generate.model`.

    Raises:
        NotAModel: no model in `generate.model`, or a damaged one.
        ConfigError: `generate.image` cannot be read, or is for a model that looks at no pictures.
        MemeloomError: an unknown template, a start text that leaves no box to fill or says what is refused, or only
            empty captions.
    """
    settings = config.generate
    model = model or load_model(Path(settings.model))
    looked_at = None if settings.image is None else _looked_at(model, settings)
    templates = _chosen(model.templates, settings) if looked_at is None else [looked_at.template]
    start = _fitting_start(model, templates, settings.start, settings.max_characters)
    word_filter = WordFilter.of(config.dataset, model) if settings.safe else None
    if word_filter is not None and not word_filter.passes(start):
        raise MemeloomError(
            "generate.start says a word that generate.safe refuses; change it, or dataset.profanity_allow"
        )
    rounds = 1 if settings.method in CERTAIN else _ROUNDS
    most = 1 if settings.method == "greedy" else settings.captions
    progress.start("generate", len(templates) * most, "captions")
    prompts = [Prompt(template, start, looked_at.picture if looked_at else None) for template in templates]
    found, empty = _different(
        open_method(model, settings, np.random.default_rng(settings.seed), word_filter), prompts, most, rounds
    )
    written = [caption for captions in found for caption in captions]
    missing = len(prompts) * most - len(written)
    refused = {} if word_filter is None else {"refused": word_filter.refused}
    progress.advance(
        len(prompts) * most,
        written=len(written),
        empty=min(empty, missing),
        repeated=max(missing - empty, 0),
        **refused,
    )
    progress.finish()
    if not written:
        raise MemeloomError(f"{settings.model}: {_why_empty(settings, word_filter)}")
    return [GeneratedCaption(made.template.id, made.template.name, made.texts, made.score) for made in written]


def _different(
    write: Write, prompts: Sequence[Prompt], most: int, rounds: int
) -> tuple[list[list[WrittenCaption]], int]:
    """Up to `most` captions for each prompt, none empty, none twice; and how many were empty in the last round."""
    found: list[dict[tuple[str, ...], WrittenCaption]] = [{} for _ in prompts]
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


def _why_empty(settings: Generate, word_filter: WordFilter | None) -> str:
    if word_filter is not None and word_filter.refused:
        return (
            f"no caption was left, and {word_filter.refused} words were refused; set generate.safe=false or allow some"
        )
    bolder = " or raise generate.min_score" if settings.method in ("threshold", "sampled-beam") else ""
    return f"every caption came out empty; train longer{bolder}"


def _looked_at(model: Captioner, settings: Generate) -> Prompt:
    """The picture that is wished for, as a template of its own with as many boxes as most captions have."""
    path = Path(settings.image or "")
    if not model.uses_pictures:
        raise ConfigError(f"generate.image: {settings.model} is a {model.kind} that looks at no pictures")
    if settings.templates:
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
    return Prompt(_stranger(IMAGE, path.name, settings.boxes or boxes.most_common(1)[0][0]), picture=picture)


def _stranger(template_id: str, name: str, boxes: int) -> DatasetTemplate:
    """A template that no model knows."""
    return DatasetTemplate(
        id=template_id, name=name, slug=template_id, captions=0, boxes=boxes, box_count=None, geometry=(),
        image_key=None,
    )  # fmt: skip


def _chosen(known: Sequence[DatasetTemplate], settings: Generate) -> list[DatasetTemplate]:
    """The templates that are wished for by id, slug or name, each once; the most frequent ones if none is."""
    chosen = _named(known, settings) if settings.templates else list(known[:MOST_FREQUENT])
    if settings.boxes is not None:
        chosen = [template.model_copy(update={"boxes": settings.boxes}) for template in chosen]
    return list({template.id: template for template in chosen}.values())


def _named(known: Sequence[DatasetTemplate], settings: Generate) -> list[DatasetTemplate]:
    by_text: dict[str, DatasetTemplate] = {}
    for kind in ("name", "slug", "id"):
        for template in reversed(known):  # the most frequent one wins a name that several have
            by_text[getattr(template, kind).casefold()] = template
    unknown = [name for name in settings.templates if name.casefold() not in by_text]
    if settings.boxes is not None:
        by_text |= {name.casefold(): _stranger(name, name, settings.boxes) for name in unknown}
    elif unknown:
        near = difflib.get_close_matches(unknown[0].casefold(), by_text, n=9, cutoff=0.4) or list(by_text)
        names = list(dict.fromkeys(by_text[text].name for text in near))[:3]
        raise MemeloomError(
            f"unknown template {unknown[0]!r}; the nearest that the model knows: {', '.join(names)}; "
            "to write for a new one all the same, set generate.boxes"
        )
    return [by_text[name.casefold()] for name in settings.templates]


def _fitting_start(model: Captioner, templates: Sequence[DatasetTemplate], start: str, most: int) -> str:
    """`start` in the letters that the model learned."""
    start = model.normalize(start)
    if len(start) >= most:
        raise MemeloomError(f"generate.start has {len(start)} characters, generate.max_characters allows {most}")
    for template in templates:
        if start.count(model.separator) >= template.boxes:
            raise MemeloomError(f"generate.start fills all {template.boxes} boxes of {template.name!r} already")
    return start


def open_method(
    model: Captioner, settings: Generate, rng: np.random.Generator, word_filter: WordFilter | None = None
) -> Write:
    """Writes with `model` as `settings` say: method, its numbers, and how long a caption may be.

    A search is never narrower than the captions that are wanted.
    """
    passed: dict[str, Any] = {"max_characters": settings.max_characters, "rng": rng, "word_filter": word_filter}

    def drawn(prompts: Sequence[Prompt], captions: int) -> list[list[WrittenCaption]]:
        repeated = [prompt for prompt in prompts for _ in range(captions)]
        made = write_captions(model, repeated, choose, **passed)
        return [made[first : first + captions] for first in range(0, len(made), captions)]

    def searched(prompts: Sequence[Prompt], captions: int) -> list[list[WrittenCaption]]:
        wanted = Search(max(settings.beam_width, captions), settings.length_penalty, bar)
        return search_captions(model, prompts, wanted, captions=captions, **passed)

    if settings.method in ("beam", "sampled-beam"):
        bar = settings.min_score if settings.method == "sampled-beam" else None
        return searched
    choose = _chooser(settings)
    return drawn


def _chooser(settings: Generate) -> Chooser:
    if settings.method == "greedy":
        return greedily
    if settings.method == "threshold":
        return by_threshold(settings.min_score)
    return by_sampling(settings.temperature, top_k=settings.top_k, top_p=settings.top_p)
