"""Replacing a folder as a whole: the former one or the new one, and nothing of anybody else's."""

import os
from contextlib import suppress
from pathlib import Path

import pytest

from memeloom.configs.errors import MemeloomError
from memeloom.dataset.folder import remove_work, replaced_folder, work_folder
from memeloom.dataset.manifest import MANIFEST


def put(folder: Path, content: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / MANIFEST).write_text(content)


def holds(folder: Path) -> str:
    return (folder / MANIFEST).read_text()


def others(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name not in ("data", ".data.lock"))


def test_it_takes_the_place_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "data"
    with replaced_folder(path) as folder:
        put(folder, "one")
        assert not path.exists()
    with replaced_folder(path) as folder:
        put(folder, "two")
        assert holds(path) == "one"
    assert holds(path) == "two"
    assert others(path.parent) == []


def test_an_error_leaves_the_former_one(tmp_path: Path) -> None:
    put(tmp_path / "data", "one")
    with suppress(ZeroDivisionError), replaced_folder(tmp_path / "data") as folder:
        put(folder, "two")
        put(folder, str(1 / 0))
    assert holds(tmp_path / "data") == "one"
    assert others(tmp_path) == []


def test_what_a_killed_build_left_is_cleaned_up(tmp_path: Path) -> None:
    put(tmp_path / "data", "one")
    put(tmp_path / ".data.building", "half")
    put(tmp_path / ".data.former", "zero")
    with replaced_folder(tmp_path / "data") as folder:
        assert list(folder.iterdir()) == []
        put(folder, "two")
    assert holds(tmp_path / "data") == "two"
    assert others(tmp_path) == []


def test_a_build_killed_between_the_renames_gives_the_former_one_back(tmp_path: Path) -> None:
    put(tmp_path / ".data.former", "one")
    put(tmp_path / ".data.building", "two")
    with suppress(ZeroDivisionError), replaced_folder(tmp_path / "data") as folder:
        assert holds(tmp_path / "data") == "one"
        put(folder, str(1 / 0))
    assert holds(tmp_path / "data") == "one"


def test_a_folder_of_something_else_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "thesis.txt").write_text("dear")
    with pytest.raises(MemeloomError, match="holds something else than a dataset"), replaced_folder(tmp_path / "data"):
        pytest.fail("no folder was to be had")
    assert (tmp_path / "data" / "thesis.txt").read_text() == "dear"


def test_a_file_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("dear")
    with pytest.raises(MemeloomError, match="holds something else than a dataset"), replaced_folder(tmp_path / "data"):
        pytest.fail("no folder was to be had")
    assert (tmp_path / "data").read_text() == "dear"


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with replaced_folder(tmp_path / "data") as folder:
        put(folder, "one")
    assert holds(tmp_path / "data") == "one"


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "disk" / "data")
    with replaced_folder(tmp_path / "data") as folder:
        put(folder, "one")
    assert (tmp_path / "data").is_symlink()
    assert holds(tmp_path / "disk" / "data") == "one"


def test_two_builds_never_write_the_same_folder(tmp_path: Path) -> None:
    with replaced_folder(tmp_path / "data") as folder:
        put(folder, "one")
        with pytest.raises(MemeloomError, match="another build is writing"), replaced_folder(tmp_path / "data"):
            pytest.fail("no folder was to be had")
        assert holds(folder) == "one"
    assert holds(tmp_path / "data") == "one"


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        (tmp_path / "file").write_text("in the way")
        path = tmp_path / "file" / "data"
    else:
        (tmp_path / "locked").mkdir(mode=0o500)
        path = tmp_path / "locked" / "data"
    with pytest.raises(MemeloomError, match=f"cannot write {path}"), replaced_folder(path):
        pytest.fail("no folder was to be had")


def test_what_builds_left_beside_a_dataset_can_be_removed(tmp_path: Path) -> None:
    path = tmp_path / "data"
    assert not remove_work(path)
    put(path, "one")
    put(work_folder(path), "captions")
    put(tmp_path / ".data.building", "captions")
    assert remove_work(path)
    assert others(tmp_path) == []
    assert holds(path) == "one"
    assert not remove_work(path)


def test_the_work_of_a_build_that_runs_is_left_to_it(tmp_path: Path) -> None:
    put(work_folder(tmp_path / "data"), "captions")
    with replaced_folder(tmp_path / "data") as folder:
        with pytest.raises(MemeloomError, match="another build is writing"):
            remove_work(tmp_path / "data")
        put(folder, "two")
    assert work_folder(tmp_path / "data").exists()
