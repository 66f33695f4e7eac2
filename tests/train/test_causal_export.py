"""An exported `causal` says the same as the model, in programs that know nothing of memeloom."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from memeloom.configs.progress import Silent
from memeloom.configs.schema import Config
from memeloom.train.causal.model import CausalCaptioner
from memeloom.train.causal.packing import PackedBatches
from memeloom.train.contract import Prompt
from memeloom.train.corpus import open_dataset
from memeloom.train.export import export_model
from memeloom.train.fit import train_model
from memeloom.train.model_folder import load_model
from tests.train.picture_dataset import captions, with_pictures

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")
Toy: TypeAlias = Callable[..., Config]
SMALL: dict[str, Any] = {
    "causal__units": 8, "causal__hidden": 8, "causal__table_bits": 10, "causal__table_width": 4, "causal__batch": 4,
    "causal__length": 64, "steps": 20, "steps_per_epoch": 20,
}  # fmt: skip
# TensorFlow alone answers: argv names the SavedModel and a file of questions, the answers go beside it.
SERVER = """
import json, sys
import numpy as np
import tensorflow as tf
served = tf.saved_model.load(sys.argv[1]).signatures
asked = json.load(open(sys.argv[2]))
inputs = {name: tf.constant(asked[name], kind) for name, kind in (("contexts", tf.int32), ("begins", tf.float32))}
if "pictures" in asked:
    inputs["pictures"] = tf.constant(asked["pictures"], tf.float32)
answers = {"plain": served["serving_default"](**inputs)["output_0"].numpy().tolist()}
said = served["next_character"](text=tf.constant(asked["texts"]), template=tf.constant(asked["templates"]))
answers["words"] = said["probabilities"].numpy().tolist()
answers["likeliest"] = [letter.decode() for letter in said["likeliest"].numpy()]
assert "memeloom" not in sys.modules
json.dump(answers, open(sys.argv[3], "w"))
"""


@pytest.fixture(scope="module", params=["plain", "with pictures"])
def trained(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, toy: Toy,
    write_dataset: Callable[..., Any],
) -> Config:  # fmt: skip
    """Settings of a small training; never change its folder."""
    folder = tmp_path_factory.mktemp("causal")
    more: dict[str, Any] = {}
    # One template that there is nothing to learn of, and more captions of the first, so that their order is certain.
    learned = [("61533", ("cats", "all the")), ("one-does-not-simply", ("one does not simply", "walk"))] * 30
    held_out = [("61533", ("bugs", "so many")), ("8072285", ("wow", "such", "doge"))] * 4
    write_dataset(folder / "dataset", {"train": learned, "validation": held_out})
    if request.param == "with pictures":
        rows = {"train": captions(60, 1), "validation": captions(30, 2)}
        with_pictures(folder / "seen", write_dataset(folder / "seen", rows))
        more = {
            "dataset": folder / "seen", "causal__pictures": "true", "pictures__weights": "none",
            "pictures__side": 75, "pictures__vectors": folder / "vectors",
        }  # fmt: skip
    config = toy(folder, model="causal", **SMALL, **more)
    train_model(config, Silent())
    return config


def probabilities(logits: Any) -> Any:
    raised = np.exp(np.asarray(logits, np.float64))
    return raised / raised.sum(axis=-1, keepdims=True)


def test_onnx_runtime_gets_the_same_probabilities_for_any_number_and_length_of_rows(
    trained: Config, tmp_path: Path
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    folder = Path(trained.train.output)
    export_model(folder, tmp_path / "served", "onnx", Silent())
    session = onnxruntime.InferenceSession(tmp_path / "served" / "causal.onnx", providers=["CPUExecutionProvider"])
    model = load_model(folder)
    assert isinstance(model, CausalCaptioner)
    for rows, length in ((1, 37), (3, 64)):
        inputs = questions_of(trained, model, rows, length)
        (found,) = session.run(None, inputs)
        plain = model.networks["causal"](list(inputs.values()), training=False)
        np.testing.assert_allclose(probabilities(found), probabilities(plain), atol=1e-4)


def questions_of(trained: Config, model: CausalCaptioner, rows: int, length: int) -> dict[str, Any]:
    """What the network takes, made of captions."""
    learn = open_dataset(Path(trained.train.dataset)).train
    packed = PackedBatches(learn, model.letters, rows=rows, length=length, seed=1, known=range(3), unknown=0)
    (contexts, begins), _, _ = packed.batch(0)
    inputs = {"contexts": contexts, "begins": begins}
    if model.uses_pictures:
        size = model.networks["encoder"].output_shape[-1]
        inputs["pictures"] = np.random.default_rng(1).random((rows, 9, size), np.float32)
    return inputs


def test_tensorflow_alone_gets_the_same_probabilities_from_contexts_and_from_texts(
    trained: Config, tmp_path: Path
) -> None:
    folder = Path(trained.train.output)
    export_model(folder, tmp_path / "served", "saved-model", Silent())
    model = load_model(folder)
    assert isinstance(model, CausalCaptioner)
    inputs = questions_of(trained, model, rows=2, length=60)
    known = model.templates
    asked = [
        (known[0].id, "", known[0]), (known[1].name.upper(), "ONE does ☃not", known[1]),
        (known[2].slug, "wow|such wow " * 9, known[2]), ("no such", "a|b |c", known[0].model_copy(update={"id": "x"})),
    ]  # fmt: skip
    prompts = [Prompt(template, model.normalize(text)) for _, text, template in asked]
    questions, answers = tmp_path / "asked.json", tmp_path / "answers.json"
    words = {"templates": [name for name, _, _ in asked], "texts": [text for _, text, _ in asked]}
    questions.write_text(json.dumps({**{name: values.tolist() for name, values in inputs.items()}, **words}))
    served = tmp_path / "served" / "causal" / "1"
    written = sum(path.stat().st_size for path in (served / "variables").iterdir())
    assert written < 1.2 * (folder / "causal.keras").stat().st_size, "each variable once"
    command = [sys.executable, "-I", "-c", SERVER, str(served), str(questions), str(answers)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(answers.read_text())
    plain = model.networks["causal"](list(inputs.values()), training=False)
    np.testing.assert_allclose(said["plain"], plain, atol=1e-4)
    expected = np.exp(model.start_decoding(prompts).log_probs())
    np.testing.assert_allclose(said["words"], expected, atol=1e-5)
    assert said["likeliest"] == [model.alphabet.characters[row] for row in expected.argmax(axis=1)]
