"""GPT-2 is loaded from a preset folder; a preset that cannot be loaded is a one-line error."""

import sys
from collections.abc import Callable
from importlib import reload
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from memeloom.configs.errors import MemeloomError
from memeloom.configs.progress import SILENT
from memeloom.configs.schema import Config
from memeloom.train.corpus import open_dataset
from memeloom.train.gpt2 import network
from memeloom.train.gpt2.model import prepare
from memeloom.train.gpt2.tokens import learn_tokens

# Keras 3.15 asks TensorFlow's tensors for arrays in the manner of NumPy 1.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")
keras_hub = pytest.importorskip("keras_hub")
Toy: TypeAlias = Callable[..., Config]


@pytest.fixture(scope="module")
def preset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as KerasHub keeps GPT-2 in."""
    folder = tmp_path_factory.mktemp("preset") / "mine"
    vocabulary, merges = learn_tokens(["one does not simply walk into mordor"] * 2, 300)
    backbone = keras_hub.models.GPT2Backbone(
        vocabulary_size=len(vocabulary), num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16,
        max_sequence_length=40,
    )  # fmt: skip
    backbone.save_to_preset(str(folder))
    numbers = {token: number for number, token in enumerate(vocabulary)}
    keras_hub.models.GPT2Tokenizer(vocabulary=numbers, merges=merges).save_to_preset(str(folder))
    return folder


def task(config: Config) -> Any:
    return prepare(config.train, open_dataset(Path(config.train.dataset)), SILENT)


def test_weights_and_vocabulary_come_from_a_folder(toy: Toy, tmp_path: Path, preset: Path) -> None:
    made = task(toy(tmp_path, model="gpt2", gpt2__preset=str(preset), gpt2__sequence_length=40))
    (text,) = made.captioner.tokens.encode(["mordor"])
    assert "".join(made.captioner.tokens.vocabulary[token] for token in text) == "mordor"
    assert len(text) < len("mordor")
    kept = keras_hub.models.GPT2Backbone.from_preset(str(preset))
    for mine, theirs in zip(made.captioner.network.backbone.get_weights(), kept.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_window_longer_than_that_of_the_preset_is_refused(toy: Toy, tmp_path: Path, preset: Path) -> None:
    config = toy(tmp_path, model="gpt2", gpt2__preset=str(preset), gpt2__sequence_length=64)
    with pytest.raises(MemeloomError, match=r"train\.gpt2\.sequence_length is 64, but .* reads at most 40 tokens"):
        task(config)


@pytest.mark.parametrize(
    ("name", "why"), [("no-such-gpt2", "Unknown preset identifier"), ("tests", "has no config.json")]
)
def test_an_invalid_preset_is_named(toy: Toy, tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(MemeloomError, match=rf"train\.gpt2\.preset '{name}' cannot be loaded .*{why}.*or tiny"):
        task(toy(tmp_path, model="gpt2", gpt2__preset=name))


def test_without_a_network_the_error_is_one_line(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise ConnectionError("HTTPSConnectionPool: Max retries exceeded\nwith url: …")

    monkeypatch.setattr(keras_hub.models.GPT2Backbone, "from_preset", refused)
    with pytest.raises(MemeloomError, match=r"the download failed: ConnectionError\); name a GPT-2 .*") as caught:
        task(toy(tmp_path, model="gpt2", gpt2__preset="gpt2_base_en"))
    assert "\n" not in str(caught.value)


def test_without_keras_hub_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keras_hub", None)
    with pytest.raises(MemeloomError, match=r'gpt2 needs KerasHub .*pip install "memeloom\[hub\]"'):
        reload(network)
