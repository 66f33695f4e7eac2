"""A model folder is loaded only if it is complete and its card is valid, and is replaced safely."""

import io
import json
import os
import shutil
import signal
import zipfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memeloom.configs.errors import MemeloomError
from memeloom.configs.schema import Config
from memeloom.dataset.manifest import file_sha256
from memeloom.train.model_folder import CARD, NotAModel, load_model, write_model
from memeloom.train.runtime import open_captioner

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")


@pytest.fixture
def folder(model_copy: Path) -> Path:
    return model_copy


def change_card(folder: Path, **changes: Any) -> None:
    card = json.loads((folder / CARD).read_text())
    (folder / CARD).write_text(json.dumps({**card, **changes}))


@pytest.mark.parametrize("name", ["convnet.keras", "vocabulary.json", "templates.json", "metrics.json", "config.yaml"])
def test_a_damaged_missing_or_unlisted_file_is_refused(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(NotAModel, match=rf"{name}: damaged .*; train again"):
        load_model(folder)
    (folder / name).unlink()
    with pytest.raises(NotAModel, match=rf"{name}: missing; train again"):
        load_model(folder)
    files = json.loads((folder / CARD).read_text())["files"]
    del files[name]
    change_card(folder, files=files)
    with pytest.raises(NotAModel, match=rf"no sha256 of {name}; train again"):
        load_model(folder)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAModel, match=r"no model here \(no model\.json\); train one with `memeloom train`"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("content", "../secret.json"), ("content", "sub/vocabulary.json"), ("content", ""), ("content", "a\0b"),
        ("files", "/etc/hostname"), ("files", ".."), ("networks", "../convnet"),
    ],
)  # fmt: skip
def test_a_card_that_names_files_outside_the_folder_is_refused(folder: Path, key: str, name: str) -> None:
    (folder.parent / "secret.json").write_text('["a"]')
    shutil.copyfile(folder / "convnet.keras", folder.parent / "convnet.keras")
    listed = json.loads((folder / CARD).read_text())[key]
    change_card(folder, **{key: {**listed, name: "0" * 64} if key == "files" else [*listed, name]})
    with pytest.raises(NotAModel, match=r"is not a file name in this folder; train again"):
        load_model(folder)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": "oracle"}, "unknown kind of model 'oracle'"),
        ({"model": ["convnet"]}, "unknown kind of model"),
        ({"networks": None}, "networks, content or files are not"),
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


def test_a_causal_folder_from_before_it_counted_is_refused(trained_causal: Config, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(trained_causal.train.output, tmp_path / "model"))
    change_card(folder, content=["vocabulary.json"])
    for use in (load_model, open_captioner):
        with pytest.raises(NotAModel, match=r"causal of an older version, without counts\.npz; train again"):
            use(folder)


@pytest.mark.parametrize("content", ["[]", "{", "[" * 100_000])
def test_a_card_that_is_not_a_json_object_is_refused(folder: Path, content: str) -> None:
    (folder / CARD).write_text(content)
    with pytest.raises(NotAModel, match=CARD):
        load_model(folder)


def npz() -> bytes:
    """The bytes of an archive of arrays."""
    stream = io.BytesIO()
    np.savez(stream, np.zeros((3, 2)))
    return stream.getvalue()


def of_length(count: int) -> bytes:
    """The bytes of an NPY file that ends behind the header of an array of `count` numbers."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": (count,)})
    return stream.getvalue()


def nested_config() -> bytes:
    """The bytes of a Keras archive whose configuration is nested too deeply."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("config.json", "[" * 100_000)
        archive.writestr("metadata.json", "{}")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pictures.npy", npz()),
        ("pictures.npy", of_length(10**15)),
        ("convnet.keras", b"PK\x03\x04"),
        ("convnet.keras", nested_config()),
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


def stop_at(
    monkeypatch: pytest.MonkeyPatch, folder: Path, number: int, stop: Callable[[], Any], after: bool = False
) -> None:
    """Call `stop` before, or after, the change `number` of a name in `folder`."""
    numbers = count()

    def stopping(change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(path: Path, *arguments: Any, **options: Any) -> Any:
            reached = (arguments[0] if arguments else path).parent == folder and next(numbers) == number
            if reached and not after:
                stop()
            done = change(path, *arguments, **options)
            if reached and after:
                stop()
            return done

        return changed

    for name in ("replace", "unlink"):
        monkeypatch.setattr(Path, name, stopping(getattr(Path, name)))


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


# The card is removed, then six files are renamed, the card last.
@pytest.mark.parametrize(("at", "after"), [(0, False), (0, True), (3, False), (6, False), (6, True)])
def test_ctrl_c_between_two_renames_leaves_the_new_model(
    trained_convnet: Config, folder: Path, monkeypatch: pytest.MonkeyPatch, at: int, after: bool
) -> None:
    model = load_model(folder)
    stop_at(monkeypatch, folder, at, interrupt, after)
    with pytest.raises(KeyboardInterrupt):
        write_model(folder, model, {"validation_loss": 0.5}, trained_convnet)
    load_model(folder)
    assert json.loads((folder / "metrics.json").read_text()) == {"validation_loss": 0.5}
    assert not (folder / ".new").exists()


def test_ctrl_c_while_files_are_written_leaves_the_old_model(
    trained_convnet: Config, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, metrics = load_model(folder), (folder / "metrics.json").read_text()

    monkeypatch.setattr("memeloom.train.model_folder.write_config", interrupt)
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
    model.networks, model.settings = {}, {**model.settings, "parameters": 0}
    # Vocabulary, templates, metrics and settings take their places between the removal of the card and its return.
    for renames in range(6):
        shutil.rmtree(folder)
        shutil.copytree(trained_convnet.train.output, folder)
        child = os.fork()
        if not child:
            try:
                stop_at(monkeypatch, folder, renames, lambda: os.kill(os.getpid(), signal.SIGKILL))
                write_model(folder, model, {"validation_loss": 0.5}, trained_convnet)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        if renames:
            with pytest.raises(NotAModel, match="no model here"):
                load_model(folder)
        else:
            load_model(folder)
            assert (folder / "metrics.json").read_text() == metrics
