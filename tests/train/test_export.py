"""An exported model answers as the model does, in programs without memeloom, and exports replace each other safely."""

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
from memeloom.dataset.manifest import DatasetTemplate, file_sha256
from memeloom.train.causal.model import CausalCaptioner
from memeloom.train.causal.packing import PackedBatches
from memeloom.train.contract import Captioner, Prompt
from memeloom.train.corpus import open_dataset
from memeloom.train.export import EXPORT_FORMATS, MANIFEST, ExportFormat, export_model, lookup, template_names
from memeloom.train.fit import train_model
from memeloom.train.model_folder import CARD, load_model
from tests.train.picture_dataset import captions, with_pictures
from tests.train.writing_table import template

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")
Exports: TypeAlias = dict[ExportFormat, Path]
# Answers with TensorFlow alone. argv names a file that holds, for each SavedModel, its folder, arrays for the network
# with their types, and texts and templates; the answers are written into the second file.
SERVER = """
import json, sys
import tensorflow as tf
answers = []
for asked in json.load(open(sys.argv[1])):
    served = tf.saved_model.load(asked["folder"]).signatures
    plain, following = served["serving_default"], served["next_character"]
    inputs = {name: tf.constant(values, kind) for name, (values, kind) in asked["inputs"].items()}
    found = following(text=tf.constant(asked["texts"]), template=tf.constant(asked["templates"]))
    answer = {"plain": plain(**inputs)["output_0"].numpy().tolist()}
    answer["shapes"] = {name: spec.shape.as_list() for name, spec in plain.structured_input_signature[1].items()}
    answer["probabilities"] = found["probabilities"].numpy().tolist()
    answer["likeliest"] = [letter.decode() for letter in found["likeliest"].numpy()]
    try:
        following(text=tf.constant(["x"]), template=tf.constant(["no such template"]))
    except tf.errors.InvalidArgumentError as error:
        answer["refused"] = str(error)
    answers.append(answer)
assert "memeloom" not in sys.modules
json.dump(answers, open(sys.argv[2], "w"))
"""


@pytest.fixture(scope="module")
def folder(trained_convnet: Config) -> Path:
    """The folder of a `convnet`; never change it."""
    return Path(trained_convnet.train.output)


@pytest.fixture(scope="module")
def exports(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Exports:
    """Exports of a `convnet` in all formats; never change them."""
    parent = tmp_path_factory.mktemp("exports")
    for name in EXPORT_FORMATS:
        export_model(folder, parent / name, name)
    return {name: parent / name for name in EXPORT_FORMATS}


@pytest.fixture(scope="module")
def with_sight(
    tmp_path_factory: pytest.TempPathFactory,
    toy: Callable[..., Config],
    write_dataset: Callable[..., Any],
    small_encoder: None,
) -> Config:
    """Settings of a `causal` that looks at pictures, and learned no captions of one of its templates."""
    parent = tmp_path_factory.mktemp("pictures")
    rows = {"train": captions(60, 1), "validation": [*captions(30, 2), ("424242", ("such", "sky"))]}
    with_pictures(parent / "dataset", write_dataset(parent / "dataset", rows))
    config = toy(
        parent, model="causal", steps=20, steps_per_epoch=20, samples_per_epoch=0, causal__units=8,
        causal__pictures="true", pictures__weights="none", pictures__side=75, pictures__vectors=parent / "vectors",
    )  # fmt: skip
    train_model(config)
    return config


def arrays_for(config: Config, model: Captioner, rows: int, length: int) -> dict[str, Any]:
    """Inputs of the network of a `causal`, made of captions."""
    assert isinstance(model, CausalCaptioner)
    dataset = open_dataset(Path(config.train.dataset))
    packed = PackedBatches(dataset.train, model.letters, rows=rows, length=length, seed=1, known=range(3), unknown=0)
    (contexts, begins), _, _ = packed.batch(0)
    inputs = {"contexts": contexts, "begins": begins}
    if model.uses_pictures:
        size = model.networks["encoder"].output_shape[-1]
        inputs["pictures"] = np.random.default_rng(1).random((rows, 9, size), np.float32)
    return inputs


def numbers() -> Any:
    return np.random.default_rng(1).integers(0, 20, (5, 48), np.int32)


def names_of(templates: tuple[DatasetTemplate, ...]) -> list[str]:
    """A template by id, one by name, and one by slug."""
    return [templates[0].id, templates[1].name.upper(), templates[2].slug]


def test_tensorflow_alone_gives_the_probabilities_of_the_model(
    folder: Path, exports: Exports, trained_causal: Config, with_sight: Config, tmp_path: Path
) -> None:
    models, questions, expected = [load_model(folder)], [], []
    # Nothing, unknown letters, more than the network sees, and no template that it learned.
    texts = ["", "ONE does ☃not", "wow|such wow " * 9, "a|b |c"]
    served = {"convnet": exports["saved-model"] / "convnet"}
    inputs = [{"characters": numbers()}]
    for config in (trained_causal, with_sight):
        model_folder = Path(config.train.output)
        output = tmp_path / model_folder.parent.name
        export_model(model_folder, output, "saved-model")
        written = sum(path.stat().st_size for path in (output / "causal" / "1" / "variables").iterdir())
        assert written < 1.2 * (model_folder / "causal.keras").stat().st_size, "each variable is written once"
        models.append(load_model(model_folder))
        served[str(output)] = output / "causal"
        inputs.append(arrays_for(config, models[-1], rows=2, length=60))
    for model, path, arrays in zip(models, served.values(), inputs, strict=True):
        # `convnet` reads ids that it never learned; to `causal` all unknown templates are one.
        fourth = "424242"
        named = [*names_of(model.templates), fourth]
        known = [*model.templates[:3], model.templates[0].model_copy(update={"id": fourth})]
        prompts = [
            Prompt(each.model_copy(update={"boxes": 99}), model.normalize(text))
            for each, text in zip(known, texts, strict=True)
        ]
        expected.append(np.exp(model.start_decoding(prompts).log_probs()))
        questions.append({
            "folder": str(path / "1"), "texts": texts, "templates": named,
            "inputs": {name: (values.tolist(), values.dtype.name) for name, values in arrays.items()},
        })  # fmt: skip
    asked, answers = tmp_path / "asked.json", tmp_path / "answers.json"
    asked.write_text(json.dumps(questions))
    command = [sys.executable, "-I", "-c", SERVER, str(asked), str(answers)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(answers.read_text())
    for answer, model, arrays, probabilities in zip(said, models, inputs, expected, strict=True):
        given = list(arrays.values())
        plain = model.networks[model.kind](given if len(given) > 1 else given[0], training=False)
        np.testing.assert_allclose(answer["plain"], plain, atol=1e-4)
        np.testing.assert_allclose(answer["probabilities"], probabilities, atol=1e-5)
        assert answer["likeliest"] == [model.alphabet.characters[row] for row in probabilities.argmax(axis=1)]
    assert said[0]["shapes"] == {"characters": [None, 48]}
    assert "that the model learned" in said[0]["refused"]


def test_onnx_runtime_gives_the_probabilities_of_a_convnet(folder: Path, exports: Exports) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(exports["onnx"] / "convnet.onnx", providers=["CPUExecutionProvider"])
    network = load_model(folder).networks["convnet"]
    for rows in (1, 5):
        (found,) = session.run(None, {"characters": numbers()[:rows]})
        np.testing.assert_allclose(found, network(numbers()[:rows], training=False), atol=1e-5)


@pytest.mark.parametrize("trained", ["trained_causal", pytest.param("with_sight", marks=pytest.mark.soak)])
def test_onnx_runtime_gives_the_probabilities_of_a_causal(
    request: pytest.FixtureRequest, tmp_path: Path, trained: str
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    config = request.getfixturevalue(trained)
    model = load_model(Path(config.train.output))
    export_model(Path(config.train.output), tmp_path / "served", "onnx")
    session = onnxruntime.InferenceSession(tmp_path / "served" / "causal.onnx", providers=["CPUExecutionProvider"])
    for rows, length in ((1, 37), (3, 64)):
        inputs = arrays_for(config, model, rows, length)
        (found,) = session.run(None, inputs)
        plain = model.networks["causal"](list(inputs.values()), training=False)
        np.testing.assert_allclose(_softmax(found), _softmax(plain), atol=1e-4)


def _softmax(logits: Any) -> Any:
    raised = np.exp(np.asarray(logits, np.float64))
    return raised / raised.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("name", EXPORT_FORMATS)
def test_the_manifest_lists_inputs_and_the_sha256_of_every_file(
    folder: Path, exports: Exports, name: ExportFormat
) -> None:
    output = exports[name]
    about = json.loads((output / MANIFEST).read_text())
    files = {str(path.relative_to(output)) for path in output.rglob("*") if path.is_file()}
    assert files == {MANIFEST, *about["files"]}
    assert all(file_sha256(output / path) == sha256 for path, sha256 in about["files"].items())
    assert about["networks"]["convnet"]["inputs"] == [{"name": "characters", "shape": [None, 48], "dtype": "int32"}]
    for beside in ("vocabulary.json", "templates.json", "metrics.json", "config.yaml"):
        assert (output / beside).read_bytes() == (folder / beside).read_bytes()


def test_an_export_replaces_another_completely(folder: Path, exports: Exports, tmp_path: Path) -> None:
    shutil.copytree(exports["onnx"], tmp_path / "served")
    summary = export_model(folder, tmp_path / "served", "keras")
    assert summary.counts["files"] == len(list((tmp_path / "served").iterdir()))
    assert not (tmp_path / "served" / "convnet.onnx").exists()
    assert (tmp_path / "served" / "convnet.keras").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".served.lock", "served"]


def test_a_folder_that_is_not_an_export_is_never_replaced(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(MemeloomError, match="exists and is not an export; choose another output folder"):
        export_model(folder, tmp_path, "keras")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def epoch(model: Path) -> None:
    """Change metrics and card as the next epoch does."""
    (model / "metrics.json").write_text("{}")
    card = json.loads((model / CARD).read_text())
    card["files"]["metrics.json"] = file_sha256(model / "metrics.json")
    (model / CARD).write_text(json.dumps(card))


@pytest.mark.parametrize("change", [epoch, lambda model: (model / CARD).unlink(), shutil.rmtree])
def test_a_model_that_changes_meanwhile_is_not_exported(
    folder: Path, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    model = Path(shutil.copytree(folder, tmp_path / "model"))

    class Training(Silent):
        """Changes the model when its network has been written."""

        def advance(self, n: int = 1, **counts: int) -> None:
            change(model)

    with pytest.raises(MemeloomError, match=r"/model: the model changed while it was exported; export it again"):
        export_model(model, tmp_path / "served", "keras", Training())
    assert not (tmp_path / "served").exists()


def named(template_id: str, name: str) -> DatasetTemplate:
    return template(1, template_id).model_copy(update={"name": name})


def looked_up(templates: list[DatasetTemplate], *names: str) -> list[str]:
    """The ids that a graph finds under these names."""
    table = lookup(template_names(templates), "")
    ids: list[bytes] = table.lookup(tensorflow.strings.lower(list(names), encoding="utf-8")).numpy().tolist()
    return [each.decode() for each in ids]


def test_a_graph_finds_templates_by_name_in_any_case() -> None:
    templates = [named("1", "Straße"), named("2", "İstanbul ΣΑΣ"), named("3", "Doge")]
    names = ("Straße", "STRASSE", "straße", "İstanbul ΣΑΣ", "DOGE", "3", "Doge?")
    assert looked_up(templates, *names) == ["1", "1", "1", "2", "3", "3", ""]


def test_names_that_differ_only_in_sharp_s_stay_distinct() -> None:
    templates = [named("1", "Straße"), named("2", "Strasse")]
    assert looked_up(templates, "Straße", "Strasse") == ["1", "2"]


def test_an_id_wins_over_a_name_and_then_the_most_frequent_template() -> None:
    templates = [named("1", "Doge"), named("2", "DOGE"), named("doge-3", "1")]
    assert looked_up(templates, "doge", "1", "doge-3") == ["1", "1", "doge-3"]
