"""Wrong settings are refused in one line, before Keras or a backend is imported."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from memeloom.configs.errors import ConfigError
from memeloom.configs.schema import Config
from memeloom.train.checks import check_backend

# Keras 3.15 asks TensorFlow's tensors for arrays in the manner of NumPy 1.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")
ROOT = Path(__file__).parent.parent.parent
_SCRIPT = """
import json, os, sys
from pathlib import Path
from memeloom.configs.errors import MemeloomError
from memeloom.configs.load import load_config
from memeloom.train.evaluation.stage import evaluate_models
from memeloom.train.export import export_model
from memeloom.train.fit import train_model
from memeloom.train.generate import generate_captions

model, dataset, empty, backend = sys.argv[1:]
def settings(**changes):
    return load_config(None, [f"{key.replace('__', '.')}={value}" for key, value in changes.items()])
def export(format_name, folder=model):
    return export_model(Path(folder), Path(empty) / "served", format_name)
refused = {
    "train without a dataset": lambda: train_model(settings(train__dataset=empty)),
    "train on pictures that are missing": lambda: train_model(
        settings(train__dataset=dataset, train__model="show-and-tell")
    ),
    "generate without a model": lambda: generate_captions(settings(generate__model=empty)),
    "generate for an unknown template": lambda: generate_captions(
        settings(generate__model=model, generate__templates="[dogge]")
    ),
    "evaluate without a model": lambda: evaluate_models(
        settings(evaluate__models=f"[{empty}]", evaluate__dataset=dataset, evaluate__split="validation")
    ),
    "export without a model": lambda: export("saved-model", empty),
}
said = {}
for name, work in refused.items():
    try:
        work()
    except MemeloomError as error:
        said[name] = str(error)
os.environ["KERAS_BACKEND"] = backend
for name, work in {
    "train": lambda: train_model(settings(train__dataset=dataset, train__output=str(Path(empty) / "new"))),
    "generate": lambda: generate_captions(settings(generate__model=model)),
    "export": lambda: export("keras"),
}.items():
    try:
        work()
    except MemeloomError as error:
        said[f"{name} on {backend}"] = str(error)
os.environ["KERAS_BACKEND"] = "jax"
try:
    export("saved-model")
except MemeloomError as error:
    said["saved-model on jax"] = str(error)
said["imported"] = [name for name in ("keras", "tensorflow", "jax") if name in sys.modules]
print(json.dumps(said))
"""


def test_wrong_settings_are_refused_before_a_backend_is_imported(trained_convnet: Config, tmp_path: Path) -> None:
    settings = trained_convnet.train
    environment = {key: value for key, value in os.environ.items() if key != "KERAS_BACKEND"}
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, settings.output, settings.dataset, str(tmp_path), "foo"],
        cwd=ROOT, env=environment, timeout=120, check=True, capture_output=True, text=True,
    )  # fmt: skip
    said = json.loads(done.stdout)
    assert said.pop("imported") == []
    expected = {
        "train without a dataset": "build one with `memeloom build-dataset`",
        "train on pictures that are missing": "the dataset has no pictures",
        "generate without a model": "no model here",
        "generate for an unknown template": "unknown template 'dogge'",
        "evaluate without a model": "no model here",
        "export without a model": "no model here",
        **{f"{stage} on foo": "KERAS_BACKEND is 'foo'" for stage in ("train", "generate", "export")},
        "saved-model on jax": "set KERAS_BACKEND=tensorflow",
    }
    assert said.keys() == expected.keys()
    for name, text in expected.items():
        assert text in said[name]
        assert "\n" not in said[name]


def test_the_backend_of_keras_settings_file_counts_where_the_environment_names_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    assert check_backend() == "tensorflow"
    (tmp_path / "keras.json").write_text('{"backend": "torch"}')
    with pytest.raises(ConfigError, match=r"keras\.json is 'torch'; the backends .* are tensorflow and jax"):
        check_backend()
