"""What a model writes at several temperatures: diversity, and how much is memorised.

Every model writes for the templates of the same held-out captions; those captions get the same measures, which are
what a perfect model would reach.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from memeloom.dataset.texts import Texts, texts_of
from memeloom.train.characters import END
from memeloom.train.contract import Captioner, Prompt
from memeloom.train.decoding.choosers import by_sampling
from memeloom.train.decoding.draft import WrittenCaption
from memeloom.train.decoding.sampling import write_captions
from memeloom.train.evaluation.held_out import HeldOut
from memeloom.train.evaluation.measures import TemplateClassifier, distinct, self_bleu, words_of
from memeloom.train.evaluation.overlap import Overlap, OverlapIndex, normal

_SHOWN = 6
# More captions hardly improve the classifier.
_CLASSIFIER_CAPTIONS = 200_000


@dataclass(frozen=True, slots=True)
class CaptionSet:
    """Captions of one model at one temperature, or real ones. seconds: how long writing took."""

    captions: Sequence[WrittenCaption]
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Sample:
    """A caption to show."""

    template: str
    boxes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CaptionSetMetrics:
    """The figures of a caption set; shares are 0 to 1, and all but the first three of the captions that are not empty.

    empty, cut: share without words, and of those that the model did not end.
    repeated: share that equals an earlier caption on the same template.
    repetitive: share in which a box repeats words of the box before, which `memeloom generate` draws again.
    characters: mean length, separators included. distinct: shares of different words, pairs and triples of them.
    recognised: share whose template is predicted from the words. verbatim, on_template: share that occurs in training
    as a whole, on any template, and on its own. runs: share with 30 characters in a row that occur there; remembered:
    share of all such runs; longest: mean length of the longest run, in steps of ten characters.
    """

    captions: int
    empty: float
    cut: float
    repeated: float
    repetitive: float
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
    """Return at most `count` of the held-out captions, drawn by `seed`."""
    drawn = np.random.default_rng(seed).permutation(len(held.captions))[:count]
    templates = [held.templates[row] for row in held.captions.templates[drawn]]
    boxes = [tuple(text.removesuffix(END).split(held.manifest.separator)) for text in held.texts(drawn)]
    return CaptionSet([WrittenCaption(*each, score=1.0, finished=True) for each in zip(templates, boxes, strict=True)])


def sampled_captions(model: Captioner, real: CaptionSet, temperature: float, most: int, seed: int) -> CaptionSet:
    """Write a caption of at most `most` characters with `model` for the template of each real one."""
    started = time.perf_counter()
    prompts = [Prompt(each.template) for each in real.captions]
    rng = np.random.default_rng(seed)
    captions = write_captions(model, prompts, by_sampling(temperature), max_characters=most, rng=rng)
    return CaptionSet(captions, time.perf_counter() - started)


def measure_sets(
    held: HeldOut, caption_sets: Sequence[CaptionSet], done: Callable[[int], None]
) -> list[CaptionSetMetrics]:
    """Measure each set in one scan of the training captions; `done` is called with the number of every batch.

    Raises:
        DamagedRecords: a shard of the training captions is damaged.
        NotADataset, MemeloomError: the dataset is gone, or another one stands in its place.
    """
    captions = [caption for caption_set in caption_sets for caption in caption_set.captions]
    index = OverlapIndex([normal(caption.texts) for caption in captions], [caption.template.id for caption in captions])
    classifier = TemplateClassifier(len(held.templates))
    try:
        _scan_training(held, index, classifier, done)
    finally:
        # Hours may have passed since the held-out captions were read. If the dataset was replaced meanwhile, report
        # that instead of any error that follows from it.
        held.check_unchanged()
    found = iter(index.found())
    return [_metrics(held, each, list(islice(found, len(each.captions))), classifier) for each in caption_sets]


def _scan_training(
    held: HeldOut, index: OverlapIndex, classifier: TemplateClassifier, done: Callable[[int], None]
) -> None:
    """Scan every training caption with `index`, and train the classifier on some, evenly spread."""
    rows = {template.id: row for row, template in enumerate(held.templates)}
    every = -(-held.manifest.splits["train"] // _CLASSIFIER_CAPTIONS)
    place = 0
    for texts in texts_of(held.folder, held.manifest, "train"):
        boxes = list(_boxes(texts, held.manifest.separator))
        index.scan([normal(each) for each in boxes], texts.templates)
        for at in range(-place % every, len(boxes), every):
            classifier.add(rows[texts.templates[at]], words_of(boxes[at]))
        place += len(boxes)
        done(len(boxes))


def _boxes(texts: Texts, separator: str) -> Iterator[list[str]]:
    end = 0
    for length in texts.lengths.tolist():
        begin, end = end, end + length
        yield texts.text[begin:end].split(separator)[:-1]


def _metrics(
    held: HeldOut, caption_set: CaptionSet, overlaps: Sequence[Overlap], classifier: TemplateClassifier
) -> CaptionSetMetrics:
    captions = caption_set.captions
    pairs = [(caption, each) for caption, each in zip(captions, overlaps, strict=True) if not caption.empty]
    full, found = [caption for caption, _ in pairs], [each for _, each in pairs]
    words = [words_of(caption.texts) for caption in full]
    texts = {(caption.template.id, normal(caption.texts)) for caption in full}
    predicted = [held.templates[classifier.predict(each)].id for each in words]
    return CaptionSetMetrics(
        captions=len(captions),
        empty=1 - len(full) / len(captions),
        cut=_mean([not caption.finished for caption in captions]),
        repeated=(len(full) - len(texts)) / max(len(full), 1),
        repetitive=_mean([caption.repetitive for caption in full]),
        characters=_mean([len(normal(caption.texts)) for caption in full]),
        distinct=(distinct(words, 1), distinct(words, 2), distinct(words, 3)),
        self_bleu=self_bleu(words),
        recognised=_mean([caption.template.id == id_ for caption, id_ in zip(full, predicted, strict=True)]),
        verbatim=_mean([each.verbatim for each in found]),
        on_template=_mean([each.on_template for each in found]),
        runs=_mean([each.remembered > 0 for each in found]),
        remembered=sum(each.remembered for each in found) / max(sum(each.windows for each in found), 1),
        longest=_mean([each.longest for each in found]),
        captions_per_second=len(captions) / caption_set.seconds if caption_set.seconds else None,
        samples=tuple(Sample(each.template.name, each.texts) for each in full[:_SHOWN]),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(len(values), 1)
