"""Wrong settings are refused in one line, before Keras or a backend is imported."""

import json
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

stages = {"train": train_model, "generate": generate_captions, "evaluate": evaluate_models}
said = []
for stage, backend, given in json.loads(sys.argv[1]):
    os.environ["KERAS_BACKEND"] = backend
    try:
        if stage == "export":
            export_model(Path(given[0]), Path("served"), given[1])
        else:
            stages[stage](load_config(None, given))
    except MemeloomError as error:
        said.append(str(error))
said.append([name for name in ("keras", "tensorflow", "jax") if name in sys.modules])
print(json.dumps(said))
"""


def test_wrong_settings_are_refused_before_a_backend_is_imported(trained_convnet: Config, tmp_path: Path) -> None:
    model, data = trained_convnet.train.output, f"train.dataset={trained_convnet.train.dataset}"
    empty, known = str(tmp_path), f"generate.model={model}"
    judged = ["evaluate.dataset=" + trained_convnet.train.dataset, f"evaluate.models=[{empty}]"]
    cases = [
        ("train", "", [f"train.dataset={empty}"], "build one with `memeloom build-dataset`"),
        ("train", "", [data, "train.model=show-and-tell"], "the dataset has no pictures"),
        ("generate", "", [f"generate.model={empty}"], "no model here"),
        ("generate", "", [known, "generate.templates=[dogge]"], "unknown template 'dogge'"),
        ("evaluate", "", [*judged, "evaluate.split=validation"], "no model here"),
        ("export", "", [empty, "saved-model"], "no model here"),
        ("train", "foo", [data], "KERAS_BACKEND is 'foo'"),
        ("generate", "foo", [known], "KERAS_BACKEND is 'foo'"),
        ("export", "foo", [model, "keras"], "KERAS_BACKEND is 'foo'"),
        ("export", "jax", [model, "saved-model"], "set KERAS_BACKEND=tensorflow"),
    ]
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, json.dumps([case[:3] for case in cases])],
        cwd=ROOT, timeout=120, check=True, capture_output=True, text=True,
    )  # fmt: skip
    *said, imported = json.loads(done.stdout)
    assert imported == []
    for line, (*_, text) in zip(said, cases, strict=True):
        assert text in line
        assert "\n" not in line


def test_the_backend_of_keras_settings_file_counts_where_the_environment_names_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    assert check_backend() == "tensorflow"
    (tmp_path / "keras.json").write_text('{"backend": "torch"}')
    with pytest.raises(ConfigError, match=r"keras\.json is 'torch'; the backends .* are tensorflow and jax"):
        check_backend()
