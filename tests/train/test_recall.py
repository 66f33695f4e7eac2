"""Words are recalled from earlier in a caption and from its template's name, alike in training and decoding."""

import numpy as np
import pytest
from numpy.typing import NDArray

from memeloom.train.causal.recall import DEPTHS, Recall, recalled
from memeloom.train.characters import Alphabet
from memeloom.train.ngram.contexts import Spelling
from memeloom.train.ngram.state import ContextState
from memeloom.train.ngram.table import Estimates
from memeloom.train.ngram.text import Text

ALPHABET = Alphabet.of("abcdefghijklmnopqrstuvwxyz |")
SPELLING = Spelling.of(ALPHABET, "|")


def text_of(*captions: str) -> Text:
    starts = np.concatenate([[0], np.cumsum([len(caption) for caption in captions])])
    return Text(ALPHABET.encode("".join(captions)), starts, np.zeros(len(captions), np.int64), SPELLING)


def names_of(*names: str) -> list[NDArray[np.uint16]]:
    return [ALPHABET.encode(name) for name in names]


def likeliest(estimates: Estimates, at: int) -> str | None:
    """The character recalled at a place."""
    if not estimates.depth[0, at]:
        return None
    return ALPHABET.characters[int(estimates.probabilities[0, at].argmax())]


def test_a_word_begun_is_recalled_from_the_caption_and_from_the_name() -> None:
    caption = "doge says do not|nice"
    found = recalled(text_of(caption), names_of("nimble fry "))
    assert likeliest(found, caption.index("do not") + 1) == "o"
    assert likeliest(found, caption.index("do not") + 2) == "g"
    assert likeliest(found, caption.index("nice") + 1) is not None
    assert likeliest(found, caption.index("nice") + 2) == "m"
    assert likeliest(found, 0) is None, "the beginning of a word recalls nothing"
    assert likeliest(found, caption.index("says") + 1) is None
    np.testing.assert_allclose(found.probabilities.sum(axis=2), 1, rtol=1e-5)
    assert found.depth.max() < DEPTHS


def test_captions_recall_nothing_of_each_other_and_nothing_that_comes_later() -> None:
    first, second = "such doge wow|", "doge doge"
    both = recalled(text_of(first, second), names_of("", "wow "))
    alone = recalled(text_of(second), names_of("wow "))
    np.testing.assert_array_equal(both.probabilities[0, len(first) :], alone.probabilities[0])
    changed = recalled(text_of(second[:-1] + "s"), names_of("wow "))
    np.testing.assert_array_equal(changed.probabilities, alone.probabilities)


@pytest.mark.parametrize("seed", [1, 2])
def test_decoding_recalls_what_whole_captions_do(seed: int) -> None:
    rng = np.random.default_rng(seed)
    captions = ["".join(rng.choice(list("ab |"), rng.integers(1, 30))) for _ in range(20)]
    names = names_of(*("".join(rng.choice(list("ab "), rng.integers(0, 9))) + " " for _ in captions))
    text = text_of(*captions)
    expected = recalled(text, names)
    contexts = ContextState.begin(text.templates, SPELLING)
    recall, lengths = Recall.begin(names, contexts), np.diff(text.starts)
    rows = np.arange(len(captions))
    for at in range(lengths.max()):
        left = lengths[rows] > at
        rows = rows[left]
        recall.select(np.flatnonzero(left))
        contexts = contexts.select(np.flatnonzero(left))
        found, places = recall.estimate(contexts), text.starts[rows] + at
        np.testing.assert_allclose(found.probabilities[0], expected.probabilities[0, places], rtol=1e-5)
        np.testing.assert_array_equal(found.depth[0], expected.depth[0, places])
        characters = text.characters[places].astype(np.int64)
        recall.read(characters, contexts, np.ones(len(rows), np.bool_))
        contexts = contexts.read(characters)
