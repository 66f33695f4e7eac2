"""The work folder: what decides about blocks is in their names, and nothing of a removed meme stays behind."""

from pathlib import Path

import pytest

from memeloom.configs.errors import MemeloomError
from memeloom.configs.outputs import replace_folder
from memeloom.dataset.flow import work
from memeloom.dataset.flow.work import code_digest, deciding_files, remove_work, work_folder
from memeloom.dataset.manifest import MANIFEST, is_dataset


def put(folder: Path, content: str = "captions") -> None:
    folder.mkdir(exist_ok=True)
    (folder / MANIFEST).write_text(content)


@pytest.mark.parametrize(
    "name",
    [
        "memeloom.catalog.english", "memeloom.engine.steps", "dataset/steps/language.py", "dataset/flow/memes.py",
        "better_profanity/profanity_wordlist.txt", "langdetect/profiles/en", "py3langid/data/model.npz.xz",
    ],
)  # fmt: skip
def test_code_word_lists_and_models_decide(name: str) -> None:
    files = dict(deciding_files())
    assert files[name].stat().st_size > 0


@pytest.mark.parametrize("changed", ["code", "name", "library"])
def test_the_digest_follows_whatever_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    path, name, release = tmp_path / "words.txt", "words", "2.3"
    path.write_text("fine")
    monkeypatch.setattr(work, "deciding_files", lambda: [(name, path)])
    monkeypatch.setattr(work, "version", lambda _: release)
    before = code_digest.__wrapped__()
    assert code_digest.__wrapped__() == before
    if changed == "code":
        path.write_text("evil")
    elif changed == "name":
        name = "other"
    else:
        release = "2.4"
    assert code_digest.__wrapped__() != before


def test_the_work_folder_and_leftovers_of_builds_can_be_removed(tmp_path: Path) -> None:
    path = tmp_path / "data"
    assert not remove_work(path)
    for folder in (path, work_folder(path), tmp_path / ".data.building"):
        put(folder)
    assert remove_work(path)
    assert [each.name for each in sorted(tmp_path.iterdir()) if each.is_dir()] == ["data"]
    assert not remove_work(path)


def test_a_running_build_keeps_its_work_folder(tmp_path: Path) -> None:
    path = tmp_path / "data"
    put(work_folder(path))
    with replace_folder(path, "a dataset", is_dataset) as folder:
        with pytest.raises(MemeloomError, match="another process is writing"):
            remove_work(path)
        put(folder)
    assert work_folder(path).exists()
