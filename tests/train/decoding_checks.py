"""Captions made of texts, and what every character model must do."""

from collections.abc import Sequence

import numpy as np

from memeloom.train.characters import Alphabet
from memeloom.train.contract import Captioner, Prompt
from memeloom.train.corpus import Captions


def captions_of(
    alphabet: Alphabet, texts: Sequence[str], templates: Sequence[int] = (), ids: Sequence[str] = ("x",)
) -> Captions:
    """Texts as captions of the first template, or of `templates`."""
    boxes = [text[:at].count("|") for text in texts for at in range(len(text))]
    return Captions(
        characters=alphabet.encode("".join(texts)),
        boxes=np.array(boxes, np.uint8),
        starts=np.cumsum([0, *map(len, texts)]),
        templates=np.array(templates or [0] * len(texts), np.int32),
        prefixes=alphabet.prefixes(ids, max(boxes) + 1),
    )


def check_character_model(model: Captioner) -> None:
    """Appended characters count as those of a start text, whatever the order of rows, and as `score` judges them."""
    template = model.templates[0].model_copy(update={"boxes": 99})
    rng, every = np.random.default_rng(2), np.arange(3)
    texts, likelihood, right = [""] * 3, np.zeros(3), np.zeros(3, np.int64)
    state = model.start_decoding([Prompt(template)] * 3)
    for _ in range(25):
        tokens = rng.integers(0, len(model.alphabet), 3)
        scores = state.log_probs()
        likelihood, right = likelihood + scores[every, tokens], right + (scores.argmax(axis=1) == tokens)
        state.append(tokens)
        rows = rng.permutation(3)
        state.select(rows)
        texts = [texts[row] + model.text([int(tokens[row])]) for row in rows]
        likelihood, right = likelihood[rows], right[rows]
        read = model.start_decoding([Prompt(template, text) for text in texts]).log_probs()
        np.testing.assert_allclose(state.log_probs(), read, rtol=1e-4, atol=1e-4)
    judged = model.score(captions_of(model.alphabet, texts, ids=[template.id]), 0, 3)
    np.testing.assert_allclose(judged.log_likelihood, likelihood, rtol=1e-4)
    assert judged.right.tolist() == right.tolist()
    state.select(np.array([2, 2]))
    np.testing.assert_allclose(state.log_probs(), read[[2, 2]], rtol=1e-4, atol=1e-4)
    uneven = [Prompt(template, text[:length]) for text, length in zip(texts, (5, 0, 20), strict=True)]
    alone = [model.start_decoding([prompt]).log_probs()[0] for prompt in uneven]
    np.testing.assert_allclose(model.start_decoding(uneven).log_probs(), alone, rtol=1e-4, atol=1e-4)
