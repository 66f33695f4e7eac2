"""A model folder is loaded only if it is complete and its card is valid, and is replaced safely."""

import io
import json
import os
import shutil
import signal
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from memeloom.configs.errors import MemeloomError
from memeloom.configs.schema import Config
from memeloom.dataset.manifest import file_sha256
from memeloom.train.model_folder import CARD, NotAModel, load_model, write_model

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")
Toy: TypeAlias = Callable[..., Config]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(model_copy: Path) -> Path:
    return model_copy


def change_card(folder: Path, **changes: Any) -> None:
    card = json.loads((folder / CARD).read_text())
    (folder / CARD).write_text(json.dumps({**card, **changes}))


@pytest.mark.parametrize("name", ["convnet.keras", "vocabulary.json", "templates.json", "metrics.json", "config.yaml"])
def test_a_damaged_file_is_refused(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(NotAModel, match=rf"{name}: damaged .*; train again"):
        load_model(folder)


def test_a_missing_file_is_refused(folder: Path) -> None:
    (folder / "templates.json").unlink()
    with pytest.raises(NotAModel, match=r"templates\.json: missing"):
        load_model(folder)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAModel, match=r"no model here \(no model\.json\); train one with `memeloom train`"):
        load_model(tmp_path)


@pytest.mark.parametrize("name", ["../secret.json", "/etc/hostname", "sub/vocabulary.json", "..", "", "a\0b"])
@pytest.mark.parametrize("key", ["content", "files"])
def test_a_card_that_names_files_outside_the_folder_is_refused(folder: Path, name: str, key: str) -> None:
    (folder.parent / "secret.json").write_text('["a"]')
    card = json.loads((folder / CARD).read_text())
    if key == "content":
        change_card(folder, content=[*card["content"], name])
    else:
        change_card(folder, files={**card["files"], name: file_sha256(folder.parent / "secret.json")})
    with pytest.raises(NotAModel, match=r"is no file of this folder; train again"):
        load_model(folder)


def test_a_network_outside_the_folder_is_refused(folder: Path) -> None:
    shutil.copyfile(folder / "convnet.keras", folder.parent / "convnet.keras")
    change_card(folder, networks=["../convnet"])
    with pytest.raises(NotAModel, match=r"'\.\./convnet\.keras' is no file of this folder"):
        load_model(folder)


@pytest.mark.parametrize("name", ["convnet.keras", "vocabulary.json", "templates.json", "config.yaml"])
def test_a_file_without_a_sha256_in_the_card_is_refused(folder: Path, name: str) -> None:
    files = json.loads((folder / CARD).read_text())["files"]
    del files[name]
    change_card(folder, files=files)
    with pytest.raises(NotAModel, match=rf"no sha256 of {name}; train again"):
        load_model(folder)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": "oracle"}, "unknown kind of model 'oracle'"),
        ({"model": ["convnet"]}, "unknown kind of model"),
        ({"networks": None}, "networks, content or files are not"),
        ({"networks": [1]}, "networks, content or files are not"),
        ({"files": []}, "networks, content or files are not"),
        ({"files": {"a": 1}}, "networks, content or files are not"),
        ({"settings": 5}, "settings are not"),
        ({"settings": {}}, "the model cannot be read .*separator"),
        ({"networks": []}, "the model cannot be read .*convnet"),
        ({"version": 1}, "version 1, expected"),
        ({"kind": "cake"}, "not the card of a memeloom model"),
    ],
)
def test_an_invalid_card_is_refused(folder: Path, changes: dict[str, Any], said: str) -> None:
    change_card(folder, **changes)
    with pytest.raises(NotAModel, match=said):
        load_model(folder)


@pytest.mark.parametrize("content", ["[]", "{", "null", '"model"', "[" * 100_000])
def test_a_card_that_is_not_a_json_object_is_refused(folder: Path, content: str) -> None:
    (folder / CARD).write_text(content)
    with pytest.raises(NotAModel, match=CARD):
        load_model(folder)


def of_arrays(*arrays: Any) -> bytes:
    """The bytes of an NPZ archive."""
    stream = io.BytesIO()
    np.savez(stream, *arrays, allow_pickle=False)
    return stream.getvalue()


def of_shape(*shape: int) -> bytes:
    """The bytes of an NPY file that ends behind a header with that shape."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return stream.getvalue()


def of_files(**files: str) -> bytes:
    """The bytes of a ZIP archive; `__` in a name stands for a dot."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "."), content)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pictures.npy", b""),
        ("pictures.npy", b"PK\x03\x04"),
        ("pictures.npy", of_arrays(np.zeros((3, 2)))),
        ("pictures.npy", of_shape(10**15)),
        ("pictures.npy", of_shape(10**30)),
        ("pictures.npy", of_shape(3, 2)[:40]),
        ("convnet.keras", b"PK\x03\x04"),
        ("convnet.keras", of_files()),
        ("convnet.keras", of_files(config__json="[" * 100_000, metadata__json="{}")),
        ("convnet.keras", of_files(config__json='{"module": 5, "class_name": "x", "config": {}}', metadata__json="{}")),
        ("templates.json", b"[" * 100_000),
        ("vocabulary.json", b"5"),
    ],
)
def test_unreadable_content_with_a_valid_sha256_is_refused(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)
    card = json.loads((folder / CARD).read_text())
    files = {**card["files"], name: file_sha256(folder / name)}
    beside = [*card["content"], name] if name.endswith(".npy") else card["content"]
    change_card(folder, files=files, content=beside)
    with pytest.raises(NotAModel, match=r"the model cannot be read \(.+\); train again"):
        load_model(folder)


def test_a_full_device_is_not_reported_as_a_damaged_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = pytest.importorskip("tensorflow").errors

    def full(*_: Any, **__: Any) -> None:
        raise errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")

    monkeypatch.setattr("memeloom.train.backend.keras.saving.load_model", full)
    with pytest.raises(errors.ResourceExhaustedError):
        load_model(folder)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", [0, 1, 3, 6])
def test_ctrl_c_between_two_renames_leaves_the_new_model(
    trained_convnet: Config, folder: Path, monkeypatch: pytest.MonkeyPatch, at: int, after: bool
) -> None:
    # The card is removed, then six files are renamed, the card last.
    model, changes = load_model(folder), 0

    def interrupted(change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(path: Path, *arguments: Any, **options: Any) -> Any:
            nonlocal changes
            mine = (arguments[0] if arguments else path).parent == folder
            changes += mine
            if mine and changes == at + 1 and not after:
                raise KeyboardInterrupt
            done = change(path, *arguments, **options)
            if mine and changes == at + 1 and after:
                raise KeyboardInterrupt
            return done

        return changed

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", interrupted(Path.replace))
        patched.setattr(Path, "unlink", interrupted(Path.unlink))
        with pytest.raises(KeyboardInterrupt):
            write_model(folder, model, {"validation_loss": 0.5}, trained_convnet)
    load_model(folder)
    assert json.loads((folder / "metrics.json").read_text()) == {"validation_loss": 0.5}
    assert not (folder / ".new").exists()


def test_ctrl_c_while_files_are_written_leaves_the_old_model(
    trained_convnet: Config, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, metrics = load_model(folder), (folder / "metrics.json").read_text()

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("memeloom.train.model_folder.write_config", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_model(folder, model, {"validation_loss": 0.5}, trained_convnet)
    load_model(folder)
    assert (folder / "metrics.json").read_text() == metrics
    assert not (folder / ".new").exists()


def test_a_model_that_cannot_be_moved_into_place_is_kept_beside_it(trained_convnet: Config, folder: Path) -> None:
    model = load_model(folder)
    (folder / "vocabulary.json").unlink()
    (folder / "vocabulary.json").mkdir()
    with pytest.raises(MemeloomError, match=r"cannot write .*model: Is a directory; see .*\.new"):
        write_model(folder, model, {"validation_loss": 0.5}, trained_convnet)
    assert {CARD, "vocabulary.json"} <= {path.name for path in (folder / ".new").iterdir()}
    (folder / "vocabulary.json").rmdir()
    write_model(folder, model, {"validation_loss": 0.5}, trained_convnet)
    load_model(folder)


def test_a_write_killed_at_any_point_leaves_the_old_model_or_none(
    trained_convnet: Config, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, metrics = load_model(folder), (folder / "metrics.json").read_text()
    # The child process must not touch TensorFlow, whose threads a fork does not copy.
    model.networks = {}
    # Vocabulary, templates, metrics and settings take their places between the removal of the card and its return.
    states = []
    for renames in range(6):
        shutil.rmtree(folder)
        shutil.copytree(trained_convnet.train.output, folder)
        child = os.fork()
        if not child:
            _write_and_die(folder, model, trained_convnet, renames)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        if (folder / CARD).exists():
            load_model(folder)
            assert (folder / "metrics.json").read_text() == metrics
            states.append("old")
        else:
            with pytest.raises(NotAModel, match="no model here"):
                load_model(folder)
            states.append("none")
    assert states == ["old", *["none"] * 5]


def _write_and_die(folder: Path, model: Any, config: Config, renames: int) -> None:
    """Write `model` into `folder`, and kill this process before it changes a name there once more than `renames`."""
    left = renames

    def deadly(change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(path: Path, *arguments: Any, **options: Any) -> Any:
            nonlocal left
            if (arguments[0] if arguments else path).parent == folder:
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return change(path, *arguments, **options)

        return changed

    try:
        Path.replace, Path.unlink = deadly(Path.replace), deadly(Path.unlink)  # type: ignore[method-assign]
        write_model(folder, model, {"validation_loss": 0.5}, config)
    finally:
        os._exit(1)
