"""Locks between processes, and folders that are replaced as a whole."""

import errno
import fcntl
import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from memeloom.configs.errors import MemeloomError
from memeloom.configs.locks import exclusive
from memeloom.configs.outputs import folder_lock, replace_folder, restore_folder


def test_a_lock_is_exclusive_while_held_under_any_name(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "page")
    with exclusive(tmp_path / "page", "busy"):
        for name in ("page", "link"):
            with pytest.raises(MemeloomError, match=r"^busy$"), exclusive(tmp_path / name, "busy"):
                pass
        (tmp_path / ".page.lock").unlink()
        with exclusive(tmp_path / "page", "busy"):
            pass
    with exclusive(tmp_path / "page", "busy"):
        pass


def test_waiting_ends_when_the_holder_is_done(tmp_path: Path) -> None:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with exclusive(tmp_path / "page", "busy"):
            held.set()
            done.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(10)
    with pytest.raises(MemeloomError, match="busy"), exclusive(tmp_path / "page", "busy", wait_seconds=0.05):
        pass
    threading.Timer(0.05, done.set).start()
    with exclusive(tmp_path / "page", "busy", wait_seconds=10):
        assert done.is_set()
    holder.join()


def test_a_path_that_cannot_be_locked_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(MemeloomError, match=r"cannot lock .*file/page: "), exclusive(tmp_path / "file" / "page", ""):
        pass
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(MemeloomError, match=r"cannot lock .*loop"), exclusive(tmp_path / "loop" / "page", ""):
        pass

    def fail(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(MemeloomError, match=r"cannot lock .*page: No locks"), exclusive(tmp_path / "page", ""):
        pass


def _is_ours(folder: Path) -> bool:
    return (folder / "content").is_file()


def _put(folder: Path, content: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "content").write_text(content)


def _others(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name not in ("data", ".data.lock"))


@pytest.mark.parametrize("link", [False, True])
def test_a_complete_folder_replaces_the_former_one(tmp_path: Path, link: bool) -> None:
    path = tmp_path / "new" / "data"
    if link:
        (tmp_path / "disk").mkdir()
        path.parent.mkdir()
        path.symlink_to(tmp_path / "disk" / "data")
    for content, former in (("one", None), ("two", "one")):
        with replace_folder(path, "a dataset", _is_ours) as folder:
            _put(folder, content)
            assert (path / "content").read_text() == former if former else not path.exists()
    assert (path / "content").read_text() == "two"
    assert _others(path.parent) == []
    assert path.is_symlink() == link


def test_an_error_keeps_the_former_folder(tmp_path: Path) -> None:
    _put(tmp_path / "data", "one")
    with suppress(ZeroDivisionError), replace_folder(tmp_path / "data", "a dataset", _is_ours) as folder:
        _put(folder, str(1 / 0))
    assert (tmp_path / "data" / "content").read_text() == "one"
    assert _others(tmp_path) == []


@pytest.mark.parametrize("killed", ["before the swap", "in the swap", "after the swap"])
def test_a_killed_replacement_is_undone(tmp_path: Path, killed: str) -> None:
    if killed != "in the swap":
        _put(tmp_path / "data", "one")
    if killed != "after the swap":
        _put(tmp_path / ".data.building", "two")
    if killed != "before the swap":
        _put(tmp_path / ".data.former", "one" if killed == "in the swap" else "zero")
    with folder_lock(tmp_path / "data"):
        assert restore_folder(tmp_path / "data")
        assert not restore_folder(tmp_path / "data")
    assert (tmp_path / "data" / "content").read_text() == "one"
    assert _others(tmp_path) == []


@pytest.mark.parametrize("other", ["folder", "file"])
def test_only_an_empty_folder_or_one_of_its_kind_is_replaced(tmp_path: Path, other: str) -> None:
    path = tmp_path / "data"
    path.mkdir()
    with replace_folder(path, "a dataset", _is_ours) as folder:
        _put(folder, "one")
    (path / "content").rename(path / "thesis.txt")
    if other == "file":
        (path / "thesis.txt").rename(tmp_path / "thesis.txt")
        path.rmdir()
        (tmp_path / "thesis.txt").rename(path)
    with (
        pytest.raises(MemeloomError, match="data exists and is not a dataset; choose another"),
        replace_folder(path, "a dataset", _is_ours),
    ):
        pytest.fail("the block must not run")
    assert (path if other == "file" else path / "thesis.txt").read_text() == "one"


def test_a_folder_is_replaced_by_one_process_at_a_time(tmp_path: Path) -> None:
    with replace_folder(tmp_path / "data", "a dataset", _is_ours) as folder:
        _put(folder, "one")
        with (
            pytest.raises(MemeloomError, match=r"another process is writing .*data; wait"),
            replace_folder(tmp_path / "data", "a dataset", _is_ours),
        ):
            pytest.fail("the block must not run")
    assert (tmp_path / "data" / "content").read_text() == "one"
