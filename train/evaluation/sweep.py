"""What a model writes at several temperatures: how different it is, and how much of it is learned by heart.

Every model writes for the templates of the same held-out captions, which go through the same measures themselves: what
they reach is what a perfect model would.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from memeloom.dataset.manifest import DatasetTemplate
from memeloom.dataset.texts import Texts, texts_of
from memeloom.train.contract import Captioner, Prompt
from memeloom.train.decoding.sampling import by_sampling, write_captions
from memeloom.train.evaluation.held_out import HeldOut
from memeloom.train.evaluation.measures import TemplateClassifier, distinct, self_bleu, words_of
from memeloom.train.evaluation.overlap import Found, OverlapIndex, normal

_SHOWN = 6
# Captions that the classifier learns from: more than these hardly teach it anything.
_LEARNED = 200_000


@dataclass(frozen=True, slots=True)
class Said:
    """A caption, written or real. template: row in the dataset."""

    template: int
    boxes: tuple[str, ...]
    cut: bool = False

    @property
    def empty(self) -> bool:
        """Whether no box says anything."""
        return not any(box.strip() for box in self.boxes)


@dataclass(frozen=True, slots=True)
class CaptionSet:
    """Captions written by one model at one temperature, or real ones. seconds: it took to write them."""

    captions: tuple[Said, ...]
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Sample:
    """A caption to show."""

    template: str
    boxes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CaptionSetMetrics:
    """The figures of a caption_set; shares are 0 to 1, and all but the first three of the captions that are not empty.

    empty, cut: share without words, and of those that had to end before all boxes were closed.
    repeated: share that says what one before says on the same template.
    characters: mean length, separators counted. distinct: different words, pairs and triples of them among all.
    recognised: share whose template is guessed from the words. verbatim, on_template: share that stands in training as
    a whole, on any template, and on its own. runs: share with 30 characters in a row that stand there; remembered:
    share of all such runs; longest: mean length of the longest run, in steps of ten characters.
    """

    captions: int
    empty: float
    cut: float
    repeated: float
    characters: float
    distinct: tuple[float, float, float]
    self_bleu: float
    recognised: float
    verbatim: float
    on_template: float
    runs: float
    remembered: float
    longest: float
    captions_per_second: float | None
    samples: tuple[Sample, ...]


def real_captions(held: HeldOut, count: int, seed: int) -> CaptionSet:
    """At most `count` of the held-out captions, drawn by `seed`."""
    drawn = np.random.default_rng(seed).permutation(len(held.captions))[:count]
    separator = held.manifest.separator
    return CaptionSet(
        tuple(
            Said(int(held.captions.templates[row]), tuple(text.split(separator)[:-1]))
            for row, text in zip(drawn, held.texts(drawn), strict=True)
        )
    )


def written_captions(
    model: Captioner, templates: Sequence[DatasetTemplate], real: CaptionSet, temperature: float, most: int, seed: int
) -> CaptionSet:
    """A caption of `model` for the template of each real one, of at most `most` characters."""
    began = time.perf_counter()
    prompts = [Prompt(templates[each.template]) for each in real.captions]
    rng = np.random.default_rng(seed)
    made = write_captions(model, prompts, by_sampling(temperature), max_characters=most, rng=rng)
    captions = (Said(each.template, one.texts, one.cut) for each, one in zip(real.captions, made, strict=True))
    return CaptionSet(tuple(captions), time.perf_counter() - began)


def measured(held: HeldOut, caption_sets: Sequence[CaptionSet], done: Callable[[int], None]) -> list[CaptionSetMetrics]:
    """The figures of each caption_set; the training captions pass by once for all of them, and `done` is told how many.

    Raises:
        DamagedRecords: a shard of the training captions is damaged.
        NotADataset, MemeloomError: the dataset is gone, or another one stands in its place.
    """
    captions = [caption for caption_set in caption_sets for caption in caption_set.captions]
    overlap = OverlapIndex(
        [normal(caption.boxes) for caption in captions],
        [held.templates[caption.template].id for caption in captions],
    )
    classifier = TemplateClassifier(len(held.templates))
    try:
        _pass_by(held, overlap, classifier, done)
    finally:
        # Hours may lie between the held-out captions and these. If it is another dataset now, that is what went wrong,
        # whatever else did.
        held.check_unchanged()
    found = iter(overlap.found())
    return [
        _figures(held, caption_set, list(islice(found, len(caption_set.captions))), classifier)
        for caption_set in caption_sets
    ]


def _pass_by(held: HeldOut, overlap: OverlapIndex, classifier: TemplateClassifier, done: Callable[[int], None]) -> None:
    """Let every training caption pass by `overlap`, and the classifier learn from some, evenly spread."""
    rows = {template.id: row for row, template in enumerate(held.templates)}
    every = -(-held.manifest.splits["train"] // _LEARNED)
    place = 0
    for texts in texts_of(held.folder, held.manifest, "train"):
        boxes = list(_boxes(texts, held.manifest.separator))
        overlap.scan([normal(each) for each in boxes], texts.templates)
        for at in range(-place % every, len(boxes), every):
            classifier.add(rows[texts.templates[at]], words_of(boxes[at]))
        place += len(boxes)
        done(len(boxes))


def _boxes(texts: Texts, separator: str) -> Iterator[list[str]]:
    """The boxes of each caption."""
    end = 0
    for length in texts.lengths.tolist():
        begin, end = end, end + length
        yield texts.text[begin:end].split(separator)[:-1]


def _figures(
    held: HeldOut, caption_set: CaptionSet, found: Sequence[Found], classifier: TemplateClassifier
) -> CaptionSetMetrics:
    captions = caption_set.captions
    pairs = [(caption, each) for caption, each in zip(captions, found, strict=True) if not caption.empty]
    full, found = [caption for caption, _ in pairs], [each for _, each in pairs]
    words = [words_of(caption.boxes) for caption in full]
    texts = {(caption.template, normal(caption.boxes)) for caption in full}
    windows = sum(each.windows for each in found)
    guessed = [classifier.predict(said) == caption.template for caption, said in zip(full, words, strict=True)]
    return CaptionSetMetrics(
        captions=len(captions),
        empty=1 - len(full) / len(captions),
        cut=_share([caption.cut for caption in captions]),
        repeated=(len(full) - len(texts)) / max(len(full), 1),
        characters=_share([len(normal(caption.boxes)) for caption in full]),
        distinct=(distinct(words, 1), distinct(words, 2), distinct(words, 3)),
        self_bleu=self_bleu(words),
        recognised=_share(guessed),
        verbatim=_share([each.verbatim for each in found]),
        on_template=_share([each.on_template for each in found]),
        runs=_share([each.remembered > 0 for each in found]),
        remembered=sum(each.remembered for each in found) / max(windows, 1),
        longest=_share([each.longest for each in found]),
        captions_per_second=len(captions) / caption_set.seconds if caption_set.seconds else None,
        samples=tuple(Sample(held.templates[each.template].name, each.boxes) for each in full[:_SHOWN]),
    )


def _share(values: Sequence[float]) -> float:
    """The mean; nought of nothing."""
    return sum(values) / max(len(values), 1)
