"""The `gpt2` kind learns captions, decodes with a cache as without, and continues texts read by OCR."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

from memeloom.configs.schema import Config
from memeloom.dataset.manifest import read_manifest
from memeloom.train.contract import Prompt
from memeloom.train.corpus import Captions, read_captions
from memeloom.train.decoding.draft import WrittenCaption
from memeloom.train.decoding.sampling import by_threshold, write_captions
from memeloom.train.export import export_model
from memeloom.train.fit import train_model
from memeloom.train.gpt2.model import Gpt2Captioner
from memeloom.train.model_folder import load_model
from tests.train.decoding_checks import captions_of

# Keras 3.15 asks TensorFlow's tensors for arrays in the manner of NumPy 1.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")
Toy: TypeAlias = Callable[..., Config]
WINDOW = 48


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, toy: Toy) -> Config:
    """Settings of a training that has learned the toy language; never change its folder."""
    config = toy(
        tmp_path_factory.mktemp("gpt2"), model="gpt2", gpt2__preset="tiny", gpt2__sequence_length=WINDOW,
        gpt2__batch=8, gpt2__learning_rate=0.004, gpt2__warmup_steps=10, gpt2__dropout=0, steps=120,
        steps_per_epoch=120, samples_per_epoch=0,
    )  # fmt: skip
    train_model(config)
    return config


@pytest.fixture(scope="module")
def model(trained: Config) -> Gpt2Captioner:
    loaded = load_model(Path(trained.train.output))
    assert isinstance(loaded, Gpt2Captioner)
    return loaded


@pytest.fixture(scope="module")
def captions(trained: Config, model: Gpt2Captioner) -> Captions:
    """The validation captions."""
    folder = Path(trained.train.dataset)
    return read_captions(folder, read_manifest(folder), "validation", model.alphabet)


def write(model: Gpt2Captioner, prompts: Sequence[Prompt], min_score: float = 1.0) -> list[WrittenCaption]:
    rng = np.random.default_rng(1)
    return write_captions(model, prompts, by_threshold(min_score), max_characters=60, rng=rng)


def test_cached_decoding_gives_the_scores_of_a_whole_pass(model: Gpt2Captioner, captions: Captions) -> None:
    texts = list(captions.texts(model.alphabet))[:9]
    judged = model.score(captions, 0, 9)
    answers = [said for _, said in model.tokens.streams(texts)]
    state = model.start_decoding([Prompt(model.templates[row]) for row in captions.templates[:9]])
    found = np.zeros(9)
    for at in range(max(map(len, answers))):
        tokens = np.array([said[at] if at < len(said) else model.tokens.close for said in answers])
        found += np.where([at < len(said) for said in answers], state.log_probs()[np.arange(9), tokens], 0)
        state.append(tokens)
    np.testing.assert_allclose(found, judged.log_likelihood, rtol=1e-4, atol=1e-4)
    assert judged.characters.tolist() == list(map(len, texts))


def test_it_learns_the_toy_language(model: Gpt2Captioner) -> None:
    by_name = {made.template.name: made.texts for made in write(model, [Prompt(each) for each in model.templates])}
    assert by_name["X All The Y"][1] in {"all the", "so many", "why these"}
    assert by_name["One Does Not Simply"][0] == "one does not simply"
    assert by_name["Doge"][0] == "wow"


@pytest.mark.parametrize(
    ("start", "first"), [("ONE DOESNOT  SIMPLY|", "one doesnot simply"), ("one does not", "one does not simply")]
)
def test_it_continues_a_text_read_by_ocr(model: Gpt2Captioner, start: str, first: str) -> None:
    template = next(template for template in model.templates if template.name == "One Does Not Simply")
    (made,) = write(model, [Prompt(template, model.normalize(start))])
    assert made.texts[0] == first
    assert made.texts[1] in {"walk", "sleep", "code", "eat"}


def test_markers_are_never_written(model: Gpt2Captioner) -> None:
    # At this bar every token that the model may write passes.
    written = write(model, [Prompt(template) for template in model.templates] * 20, min_score=0.0)
    assert set("".join(text for made in written for text in made.texts)) <= set(model.alphabet.characters) - {"|"}


def test_selected_rows_keep_their_state(model: Gpt2Captioner) -> None:
    prompts = [Prompt(template, "wow") for template in model.templates]
    alone, together = model.start_decoding(prompts), model.start_decoding(prompts)
    together.select(np.array([2, 0, 0, 1, 2]))
    np.testing.assert_allclose(together.log_probs(), alone.log_probs()[[2, 0, 0, 1, 2]], rtol=1e-4, atol=1e-4)
    more = np.array([model.tokens.close, 70, 71])
    alone.append(more)
    together.append(more[[2, 0, 0, 1, 2]])
    together.select(np.array([3, 1]))
    np.testing.assert_allclose(together.log_probs(), alone.log_probs()[[1, 0]], rtol=1e-4, atol=1e-4)


def test_captions_longer_than_the_window_are_written_and_scored(model: Gpt2Captioner) -> None:
    template, long = model.templates[0], "memes " * WINDOW
    state = model.start_decoding([Prompt(template, "me"), Prompt(template, model.normalize(long))])
    letter = model.tokens.encode(["m"])[0][0]
    for _ in range(2 * WINDOW):
        assert np.exp(state.log_probs()).sum(axis=1) == pytest.approx(1, abs=1e-4)
        state.append(np.array([letter, letter]))
    text = f"{long}|"
    judged = model.score(captions_of(model.alphabet, [text]), 0, 1)
    assert judged.tokens.tolist() == [len(model.tokens.streams([text])[0][1])]
    assert judged.tokens[0] > WINDOW
    assert np.isfinite(judged.log_likelihood).all()


def test_an_unknown_template_is_scored_without_its_name(model: Gpt2Captioner, captions: Captions) -> None:
    unknown = replace(captions, templates=np.full_like(captions.templates, len(model.templates)))
    assert model.score(unknown, 0, 6).log_likelihood.sum() < model.score(captions, 0, 6).log_likelihood.sum()


def test_an_exported_model_gives_the_same_logits(model: Gpt2Captioner, trained: Config, tmp_path: Path) -> None:
    tensorflow = pytest.importorskip("tensorflow")
    export_model(Path(trained.train.output), tmp_path / "served", "saved-model")
    ((name, network),) = model.networks.items()
    serve = tensorflow.saved_model.load(str(tmp_path / "served" / name / "1")).signatures["serving_default"]
    rng = np.random.default_rng(1)
    asked = {
        each: rng.integers(0, 2 if "mask" in each else 50, (2, WINDOW)).astype(tensor.dtype)
        for each, tensor in network.input.items()
    }
    (said,) = serve(**{each: tensorflow.constant(values) for each, values in asked.items()}).values()
    np.testing.assert_allclose(said, network(asked, training=False), rtol=1e-3, atol=1e-3)
