"""What is exported says the same as the model, in programs that know nothing of memeloom."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from memeloom.configs.errors import MemeloomError
from memeloom.configs.progress import Silent
from memeloom.configs.schema import Config
from memeloom.dataset.manifest import file_sha256
from memeloom.train.contract import Prompt
from memeloom.train.convnet.model import ConvnetCaptioner
from memeloom.train.export import MANIFEST, ExportFormat, export_model
from memeloom.train.fit import train_model
from memeloom.train.model_folder import CARD, load_model

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")
Toy: TypeAlias = Callable[..., Config]
# TensorFlow alone answers: argv names the SavedModel and a file of questions, the answers go beside it.
SERVER = """
import json, sys
import numpy as np
import tensorflow as tf
served = tf.saved_model.load(sys.argv[1]).signatures
asked = json.load(open(sys.argv[2]))
plain, words = served["serving_default"], served["next_character"]
assert plain.structured_input_signature[1]["characters"].shape.as_list() == [None, 48]
answers = {"plain": plain(characters=tf.constant(asked["numbers"], tf.int32))["output_0"].numpy().tolist()}
said = words(text=tf.constant(asked["texts"]), template=tf.constant(asked["templates"]))
answers["words"] = said["probabilities"].numpy().tolist()
answers["likeliest"] = [letter.decode() for letter in said["likeliest"].numpy()]
try:
    words(text=tf.constant(["x"]), template=tf.constant(["no such template"]))
except tf.errors.InvalidArgumentError as error:
    answers["refused"] = str(error)
assert "memeloom" not in sys.modules
json.dump(answers, open(sys.argv[3], "w"))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, toy: Toy) -> Path:
    """A model; never change it."""
    config = toy(tmp_path_factory.mktemp("trained"))
    train_model(config, Silent())
    return Path(config.train.output)


def load(folder: Path) -> ConvnetCaptioner:
    model = load_model(folder)
    assert isinstance(model, ConvnetCaptioner)
    return model


def numbers() -> Any:
    return np.random.default_rng(1).integers(0, 20, (5, 48), np.int32)


def test_tensorflow_alone_gets_the_same_probabilities_from_numbers_and_from_texts(folder: Path, tmp_path: Path) -> None:
    export_model(folder, tmp_path / "served", "saved-model", Silent())
    model = load(folder)
    # By id, name and slug; an id that it never learned; no text, unknown letters, and more text than it sees.
    known = {template.id: template for template in model.templates}
    asked = {"61533": "", "One Does Not SIMPLY": "ONE does ☃not", "Doge": "wow|such " * 9, "424242": "a|b|" * 6}
    ids = ["61533", "one-does-not-simply", "8072285", "424242"]
    prompts = [
        Prompt(known.get(key, known["61533"]).model_copy(update={"id": key, "boxes": 99}), model.normalize(text))
        for key, text in zip(ids, asked.values(), strict=True)
    ]
    questions, answers = tmp_path / "asked.json", tmp_path / "answers.json"
    questions.write_text(json.dumps({"numbers": numbers().tolist(), "texts": [*asked.values()], "templates": [*asked]}))
    served = tmp_path / "served" / "convnet" / "1"
    command = [sys.executable, "-I", "-c", SERVER, str(served), str(questions), str(answers)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(answers.read_text())
    np.testing.assert_allclose(said["plain"], model.network(numbers(), training=False), atol=1e-5)
    expected = np.exp(model.start_decoding(prompts).log_probs())
    np.testing.assert_allclose(said["words"], expected, atol=1e-5)
    assert said["likeliest"] == [model.alphabet.characters[row] for row in expected.argmax(axis=1)]
    assert "that the model learned" in said["refused"]


def test_onnx_runtime_gets_the_same_probabilities_for_any_number_of_rows(folder: Path, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    export_model(folder, tmp_path / "served", "onnx", Silent())
    session = onnxruntime.InferenceSession(tmp_path / "served" / "convnet.onnx", providers=["CPUExecutionProvider"])
    model = load(folder)
    for rows in (1, 5):
        (found,) = session.run(None, {"characters": numbers()[:rows]})
        np.testing.assert_allclose(found, model.network(numbers()[:rows], training=False), atol=1e-5)


@pytest.mark.parametrize("name", ["saved-model", "onnx", "keras"])
def test_an_export_tells_what_it_is_and_the_sha256_of_every_file(
    folder: Path, tmp_path: Path, name: ExportFormat
) -> None:
    output = tmp_path / "served"
    summary = export_model(folder, output, name, Silent())
    about = json.loads((output / MANIFEST).read_text())
    files = {str(path.relative_to(output)) for path in output.rglob("*") if path.is_file()}
    assert files == {MANIFEST, *about["files"]}
    assert summary.counts["files"] == len(files)
    assert all(file_sha256(output / path) == sha256 for path, sha256 in about["files"].items())
    assert about["networks"]["convnet"]["inputs"] == [{"name": "characters", "shape": [None, 48], "dtype": "int32"}]
    for beside in ("vocabulary.json", "templates.json", "metrics.json", "config.yaml"):
        assert (output / beside).read_bytes() == (folder / beside).read_bytes()


def test_an_export_replaces_another_as_a_whole(folder: Path, tmp_path: Path) -> None:
    export_model(folder, tmp_path / "served", "onnx", Silent())
    export_model(folder, tmp_path / "served", "keras", Silent())
    assert not (tmp_path / "served" / "convnet.onnx").exists()
    assert (tmp_path / "served" / "convnet.keras").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".served.lock", "served"]


def test_what_is_no_export_is_never_replaced(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(MemeloomError, match="holds something that is no export; choose another folder"):
        export_model(folder, tmp_path, "keras", Silent())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_an_export_killed_between_its_renames_leaves_the_former_one_to_the_next(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_model(folder, tmp_path / "served", "keras", Silent())
    (tmp_path / "served").rename(tmp_path / ".served.former")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(MemeloomError, match=r"cannot write .*served: No space left"):
        export_model(folder, tmp_path / "served", "keras", Silent())
    assert (tmp_path / "served" / "convnet.keras").exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(5, "Input/output error")])
def test_an_export_that_stops_between_its_renames_leaves_the_former_one(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    export_model(folder, tmp_path / "served", "keras", Silent())
    before = (tmp_path / "served" / MANIFEST).read_bytes()
    rename = Path.rename

    def failing(path: Path, target: Path) -> Path:
        if path.name == ".served.writing":
            raise error
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else MemeloomError):
        export_model(folder, tmp_path / "served", "keras", Silent())
    assert (tmp_path / "served" / MANIFEST).read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [".served.lock", "served"]


def epoch(model: Path) -> None:
    """Write the model of the next epoch, as far as a reader can tell."""
    (model / "metrics.json").write_text("{}")
    card = json.loads((model / CARD).read_text())
    card["files"]["metrics.json"] = file_sha256(model / "metrics.json")
    (model / CARD).write_text(json.dumps(card))


@pytest.mark.parametrize("change", [epoch, lambda model: (model / CARD).unlink(), shutil.rmtree])
def test_a_model_that_is_trained_further_meanwhile_is_not_mixed(
    folder: Path, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    model = Path(shutil.copytree(folder, tmp_path / "model"))

    class Training(Silent):
        """Changes the model when its network is written."""

        def advance(self, n: int = 1, **counts: int) -> None:
            change(model)

    with pytest.raises(MemeloomError, match=r"/model: the model changed while it was exported; export it again"):
        export_model(model, tmp_path / "served", "keras", Training())
    assert not (tmp_path / "served").exists()


def test_the_root_is_never_replaced(folder: Path) -> None:
    with pytest.raises(MemeloomError, match="/ holds something that is no export; choose another folder"):
        export_model(folder, Path("/"), "keras", Silent())
