"""The metrics of an evaluation, each checked by hand or against a slower method."""

import math
import random
from collections.abc import Sequence

import pytest

from memeloom.train.evaluation.measures import TemplateClassifier, distinct, self_bleu, words_of
from memeloom.train.evaluation.overlap import LONGEST, RUN, STEP, OverlapIndex, normal


def said(*texts: str) -> list[list[str]]:
    return [text.split() for text in texts]


def test_distinct_n_is_the_share_of_distinct_n_grams() -> None:
    texts = said("a b a b", "a b c")
    assert distinct(texts, 1) == 3 / 7
    assert distinct(texts, 2) == 3 / 5  # a b, b a, b c of: a b, b a, a b, a b, b c
    assert distinct(texts, 3) == 1
    assert distinct(texts, 5) == 0


def test_self_bleu_equals_a_value_computed_by_hand() -> None:
    # "a b c d e" against the two others: 4 of 5 words, 3 of 4 pairs, 2 of 3 triples, 1 of 2 fours; the nearest length
    # is its own. "a b c d x" is its mirror image. "p q" shares nothing: a tenth of a match of 2 words and of 1 pair,
    # and it is shorter than the nearest, 5.
    twin = (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** (1 / 4)
    unrelated = math.exp(1 - 5 / 2) * (0.1 / 2 * 0.1 / 1) ** (1 / 2)
    assert self_bleu(said("a b c d e", "a b c d x", "p q")) == pytest.approx((2 * twin + unrelated) / 3)


def test_self_bleu_clips_counts_by_a_single_reference() -> None:
    # Of "a a a" two words and one pair occur in "a a b", no triple anywhere. Of "a a b" two words and one pair occur
    # in "a a a". Of "c a d" only one word.
    first, second, third = (2 / 3 * 1 / 2 * 0.1), (2 / 3 * 1 / 2 * 0.1), (1 / 3 * 0.1 / 2 * 0.1)
    expected = sum(product ** (1 / 3) for product in (first, second, third)) / 3
    assert self_bleu(said("a a a", "a a b", "c a d")) == pytest.approx(expected)


def test_self_bleu_of_equal_texts_is_one_and_of_one_text_zero() -> None:
    assert self_bleu(said("one does not simply", "one does not simply")) == pytest.approx(1)
    assert self_bleu(said("one does not simply", "")) == 0


def test_words_are_split_at_spaces_and_boxes() -> None:
    assert words_of(("One  does", "", "not simply")) == ["one", "does", "not", "simply"]


def test_the_classifier_equals_naive_bayes() -> None:
    rng = random.Random(3)
    captions = [
        (template, rng.choices("abcde", weights, k=4))
        for template, weights, count in ((0, (9, 4, 1, 1, 1), 30), (1, (1, 1, 3, 6, 2), 20))
        for _ in range(count)
    ]
    classifier = TemplateClassifier(2)
    for template, words in captions:
        classifier.add(template, words)

    def score(template: int, words: Sequence[str]) -> float:
        of_template = [word for at, each in captions if at == template for word in each]
        likelihood = sum(math.log((of_template.count(word) + 0.1) / (len(of_template) + 0.1 * 5)) for word in words)
        return likelihood + math.log(len(of_template))

    for _ in range(100):
        words = rng.choices("abcde", k=3)
        assert classifier.predict(words) == max((0, 1), key=lambda template: score(template, words))
        assert classifier.predict([*words, "unknown"]) == classifier.predict(words)
    assert classifier.predict([]) == 0, "the template with the most captions"


def test_the_overlap_index_equals_a_search_of_all_training_captions() -> None:
    rng = random.Random(1)
    training = ["".join(rng.choices("ab c", k=rng.randint(5, 120))) for _ in range(300)]
    written = ["".join(rng.choices("ab c", k=rng.randint(0, 60))) for _ in range(100)]
    written += [f"{text[5:60]}zz" for text in training[:50]] + training[50:55] + [""]
    overlap = OverlapIndex(written, ["here"] * len(written))
    for first in range(0, len(training), 70):
        part = training[first : first + 70]
        overlap.scan(part, ["there"] * len(part))
    for text, found in zip(written, overlap.found(), strict=True):
        runs = [
            text[at : at + length] for length in range(STEP, LONGEST + 1, STEP) for at in range(len(text) - length + 1)
        ]
        known = [run for run in runs if any(run in each for each in training)]
        assert found.longest == max(map(len, known), default=0)
        assert found.windows == sum(len(run) == RUN for run in runs)
        assert found.remembered == sum(len(run) == RUN for run in known)
        assert found.verbatim == (text in training)
        assert not found.on_template


def test_a_run_does_not_span_two_captions() -> None:
    overlap = OverlapIndex(["abcdefghij|klmnopqrst|"], ["1"])
    overlap.scan(["abcdefgh", "ij|klmnopqrst|"], ["1", "1"])
    assert overlap.found()[0].longest == 10


def test_a_verbatim_caption_is_attributed_to_its_template() -> None:
    texts = [normal(boxes) for boxes in (("Make", "ALL the  memes"), ("make", "none"))]
    assert texts[0] == "make|all the memes|"
    overlap = OverlapIndex([texts[0], texts[0], texts[1]], ["1", "2", "1"])
    overlap.scan([normal(("make", "all the memes"))], ["1"])
    assert [(found.verbatim, found.on_template) for found in overlap.found()] == [
        (True, True), (True, False), (False, False),
    ]  # fmt: skip
