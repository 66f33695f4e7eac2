"""The `gpt2` kind learns captions, decodes with a cache as without, and continues texts read by OCR."""

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from memeloom.configs.progress import Silent
from memeloom.configs.schema import Config
from memeloom.dataset.manifest import read_manifest
from memeloom.train.contract import Captioner, Prompt
from memeloom.train.corpus import Captions, read_captions
from memeloom.train.decoding.sampling import by_threshold, write_captions
from memeloom.train.export import export_model
from memeloom.train.fit import train_model
from memeloom.train.gpt2.model import Gpt2Captioner
from memeloom.train.model_folder import NotAModel, load_model, write_model

# Keras 3.15 asks TensorFlow's tensors for arrays in the manner of NumPy 1.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")
Toy: TypeAlias = Callable[..., Config]
WINDOW = 48


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, toy: Toy) -> Config:
    """Settings of a training that has learned the toy language; never change its folder."""
    config = toy(
        tmp_path_factory.mktemp("gpt2"),
        model="gpt2",
        gpt2__preset="tiny",
        gpt2__sequence_length=WINDOW,
        gpt2__batch=8,
        gpt2__learning_rate=0.004,
        gpt2__warmup_steps=10,
        gpt2__dropout=0,
        steps=120,
        steps_per_epoch=120,
        samples_per_epoch=0,
    )
    train_model(config, Silent())
    return config


@pytest.fixture(scope="module")
def model(trained: Config) -> Gpt2Captioner:
    loaded = load_model(Path(trained.train.output))
    assert isinstance(loaded, Gpt2Captioner)
    return loaded


def captions_of(config: Config, model: Gpt2Captioner) -> Any:
    folder = Path(config.train.dataset)
    return read_captions(folder, read_manifest(folder), "validation", model.alphabet)


def likelihood_on_a_sheet(model: Gpt2Captioner, texts: list[str], rows: list[int]) -> NDArray[np.float64]:
    """What the tokens of `texts` get when they are written one by one."""
    said = [answers for _, answers in model.tokens.streams(texts)]
    state = model.start_decoding([Prompt(model.templates[row]) for row in rows])
    found = np.zeros(len(texts))
    for at in range(max(map(len, said))):
        tokens = np.array([answers[at] if at < len(answers) else model.tokens.close for answers in said])
        scores = state.log_probs()[np.arange(len(texts)), tokens]
        found += np.where([at < len(answers) for answers in said], scores, 0)
        state.append(tokens)
    return found


def test_cached_decoding_gives_the_scores_of_a_whole_pass(trained: Config, model: Gpt2Captioner) -> None:
    captions = captions_of(trained, model)
    texts = list(captions.texts(model.alphabet))[:9]
    judged = model.score(captions, 0, 9)
    written = likelihood_on_a_sheet(model, texts, captions.templates[:9].tolist())
    np.testing.assert_allclose(written, judged.log_likelihood, rtol=1e-4, atol=1e-4)
    assert judged.characters.tolist() == list(map(len, texts))


def test_it_learns_the_toy_language(model: Gpt2Captioner) -> None:
    written = write_captions(
        model,
        [Prompt(template) for template in model.templates] * 4,
        by_threshold(1.0),
        max_characters=60,
        rng=np.random.default_rng(1),
    )
    by_name = {made.template.name: made.texts for made in written}
    assert by_name["X All The Y"][1] in {"all the", "so many", "why these"}
    assert by_name["One Does Not Simply"][0] == "one does not simply"
    assert by_name["Doge"][0] == "wow"


def test_it_continues_a_text_read_by_ocr(model: Gpt2Captioner) -> None:
    template = next(template for template in model.templates if template.name == "One Does Not Simply")
    start = model.normalize("ONE DOESNOT  SIMPLY|")
    (made,) = write_captions(
        model, [Prompt(template, start)], by_threshold(1.0), max_characters=60, rng=np.random.default_rng(1)
    )
    assert made.texts[0] == "one doesnot simply"
    assert made.texts[1] in {"walk", "sleep", "code", "eat"}


def test_it_completes_a_started_box(model: Gpt2Captioner) -> None:
    template = next(template for template in model.templates if template.name == "One Does Not Simply")
    (made,) = write_captions(
        model, [Prompt(template, "one does not")], by_threshold(1.0), max_characters=60, rng=np.random.default_rng(1)
    )
    assert made.texts[0] == "one does not simply"


def test_markers_are_never_written(model: Gpt2Captioner) -> None:
    prompts = [Prompt(template) for template in model.templates] * 20
    # At this bar every token that the model may say at all passes.
    written = write_captions(model, prompts, by_threshold(0.0), max_characters=30, rng=np.random.default_rng(2))
    letters = set(model.alphabet.characters)
    assert set("".join(text for made in written for text in made.texts)) <= letters - {"|"}


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


def test_captions_longer_than_the_window_can_be_written(model: Gpt2Captioner) -> None:
    template = model.templates[0]
    long = "memes " * WINDOW
    state = model.start_decoding([Prompt(template, "me"), Prompt(template, model.normalize(long))])
    letter = model.tokens.encode(["m"])[0][0]
    for _ in range(2 * WINDOW):
        assert np.exp(state.log_probs()).sum(axis=1) == pytest.approx(1, abs=1e-4)
        state.append(np.array([letter, letter]))


def test_captions_longer_than_the_window_are_scored_completely(model: Gpt2Captioner, trained: Config) -> None:
    captions = captions_of(trained, model)
    long = np.tile(captions.characters[: captions.starts[1] - 1], 12)
    one = Captions(
        np.append(long, captions.characters[captions.starts[1] - 1]),
        np.zeros(len(long) + 1, np.uint8),
        np.array([0, len(long) + 1]),
        captions.templates[:1],
        captions.prefixes,
    )
    judged = model.score(one, 0, 1)
    assert judged.tokens.tolist() == [len(model.tokens.streams(one.texts(model.alphabet))[0][1])]
    assert judged.tokens[0] > WINDOW
    assert np.isfinite(judged.log_likelihood).all()


def test_an_unknown_template_is_scored_without_its_name(model: Gpt2Captioner, trained: Config) -> None:
    captions = captions_of(trained, model)
    unknown = dataclasses.replace(captions, templates=np.full_like(captions.templates, len(model.templates)))
    assert model.score(unknown, 0, 6).log_likelihood.sum() < model.score(captions, 0, 6).log_likelihood.sum()


def test_a_saved_model_writes_the_same_captions(model: Gpt2Captioner, trained: Config, tmp_path: Path) -> None:
    write_model(tmp_path, model, {}, trained)
    again = load_model(tmp_path)
    prompts = [Prompt(template) for template in model.templates] * 3

    def written(captioner: Captioner) -> list[tuple[str, ...]]:
        rng = np.random.default_rng(3)
        made = write_captions(captioner, prompts, by_threshold(0.2), max_characters=60, rng=rng)
        return [caption.texts for caption in made]

    assert written(again) == written(model)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "config.yaml", "gpt2.keras", "merges.json", "metrics.json", "model.json", "templates.json", "tokens.json",
        "vocabulary.json",
    ]  # fmt: skip


def test_a_saved_model_gives_the_same_logits(model: Gpt2Captioner, trained: Config, tmp_path: Path) -> None:
    tensorflow = pytest.importorskip("tensorflow")
    export_model(Path(trained.train.output), tmp_path / "served", "saved-model", Silent())
    ((name, network),) = model.networks.items()
    serve = tensorflow.saved_model.load(str(tmp_path / "served" / name / "1")).signatures["serving_default"]
    rng = np.random.default_rng(1)
    asked = {
        each: rng.integers(0, 2 if "mask" in each else 50, (2, WINDOW)).astype(tensor.dtype)
        for each, tensor in network.input.items()
    }
    (said,) = serve(**{each: tensorflow.constant(values) for each, values in asked.items()}).values()
    np.testing.assert_allclose(said, network(asked, training=False), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["gpt2.keras", "tokens.json", "merges.json"])
def test_a_damaged_file_is_refused(trained: Config, tmp_path: Path, name: str) -> None:
    copy = Path(shutil.copytree(trained.train.output, tmp_path / "model"))
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(content)
    with pytest.raises(NotAModel, match=rf"{name}: damaged"):
        load_model(copy)
