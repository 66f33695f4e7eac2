"""Captions sampled in batches have the probabilities of the model, with one compiled call a token."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from memeloom.configs.load import load_config
from memeloom.train.backend import keras
from memeloom.train.characters import Alphabet
from memeloom.train.contract import Captioner, Prompt
from memeloom.train.convnet.model import ConvnetCaptioner, build_convnet
from memeloom.train.decoding.draft import WrittenCaption, rows_to_keep
from memeloom.train.decoding.sampling import by_sampling, write_captions
from memeloom.train.generate import open_method
from tests.train.decoding_checks import check_character_model
from tests.train.writing_table import SEPARATOR, TableCaptioner, template

WORDS = ("a", "b", SEPARATOR)
METHODS = ("greedy", "threshold", "sample", "beam", "sampled-beam")


def sampled(model: Captioner, prompts: Sequence[Prompt], most: int, seed: int = 1) -> list[WrittenCaption]:
    return write_captions(model, prompts, by_sampling(), max_characters=most, rng=np.random.default_rng(seed))


def tiny_convnet() -> ConvnetCaptioner:
    network = build_convnet(10, filters=8, embedding=4, sequence_length=32, dropout=0, seed=3)
    return ConvnetCaptioner(network, Alphabet(tuple("abcdefgh |")), (template(2),), SEPARATOR)


def test_captions_are_sampled_with_their_probabilities() -> None:
    model = TableCaptioner.drawn(WORDS, 3, ("1", "2"))
    # Different templates and start texts, so that captions end at different steps and the state shrinks.
    prompts = [Prompt(template(1, "1")), Prompt(template(2, "2"), "b")]
    made = sampled(model, prompts * 6000, 5)
    assert len(set(model.steps)) > 2
    for at, prompt in enumerate(prompts):
        found = Counter(caption.texts for caption in made[at::2] if not caption.cut)
        expected: Counter[tuple[str, ...]] = Counter()
        for tokens, likelihood in model.every_caption(prompt, 5):
            expected[tuple((prompt.start + model.text(tokens)).split(SEPARATOR)[:-1])] += float(np.exp(likelihood))  # type: ignore[assignment]
        assert found.keys() <= expected.keys()
        for texts, share in expected.items():
            assert found[texts] / 6000 == pytest.approx(share, abs=0.025)


def test_the_score_is_the_geometric_mean_of_token_probabilities() -> None:
    model = TableCaptioner.drawn(WORDS, 3)
    prompt = Prompt(template(2), "a")
    by_texts = {
        tuple((prompt.start + model.text(tokens)).split(SEPARATOR)[:-1]): np.exp(likelihood / len(tokens))
        for tokens, likelihood in model.every_caption(prompt, 6)
    }
    made = [caption for caption in sampled(model, [prompt] * 50, 6) if not caption.cut]
    assert len(made) > 5
    assert [caption.score for caption in made] == pytest.approx([by_texts[caption.texts] for caption in made])


def test_a_caption_is_cut_at_max_characters() -> None:
    model = TableCaptioner(("a", "bb", SEPARATOR), {"61533": np.log(np.full((1, 4, 3), 1 / 3, np.float32))})
    made = sampled(model, [Prompt(template(2))] * 300, 4)
    assert all(len("|".join(caption.texts).rstrip("|")) <= 4 for caption in made)
    assert {caption.texts for caption in made if caption.cut} >= {("aaaa", ""), ("aaa", ""), ("bbbb", "")}
    assert not next(caption for caption in made if caption.texts == ("bb", "")).cut


def test_nothing_is_written_when_the_start_text_fills_all_boxes() -> None:
    model = TableCaptioner.drawn(WORDS, 3)
    (made,) = sampled(model, [Prompt(template(2), "a|b|")], 20)
    assert (made.texts, made.cut, model.steps) == (("a", "b"), False, [])


@pytest.mark.parametrize("method", METHODS)
def test_every_method_calls_the_network_once_a_character(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keras.Model, "predict", None)
    start = "ab c|d"
    model = tiny_convnet()
    compiled, calls = model.following, []

    def following(*parts: Any) -> Any:
        calls.append(len(parts[0]))
        return compiled(*parts)

    monkeypatch.setattr(model, "following", following)
    settings = load_config(None, [f"generate.method={method}", "generate.max_characters=24"], {}).generate
    write = open_method(model, settings, np.random.default_rng(1))
    captions = 1 if method == "greedy" else 3
    made = write([Prompt(template(boxes), start) for boxes in (2, 3)] * 2, captions)
    assert all(len(found) == captions for found in made)
    assert all(caption.texts[0] == "ab c" for found in made for caption in found)
    # One call a character, for all captions together.
    assert 0 < len(calls) <= 24 - len(start)


def test_decoding_state_and_scores_of_a_convnet_agree() -> None:
    check_character_model(tiny_convnet())


def test_the_batch_is_halved_when_half_of_it_suffices() -> None:
    wanted = np.zeros(64, bool)
    wanted[[7, 40]] = True
    kept = rows_to_keep(wanted)
    assert kept is not None
    assert (len(kept), kept[:2].tolist()) == (8, [7, 40])
    wanted[:33] = True
    assert rows_to_keep(wanted) is None
    assert rows_to_keep(np.zeros(8, bool)) is None
    fewer = rows_to_keep(np.array([False, True, False, False]), rows=5)
    assert fewer is not None
    assert fewer.tolist() == [1, 0]
