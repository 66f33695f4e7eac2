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


def test_a_held_lock_is_busy_and_free_afterwards(tmp_path: Path) -> None:
    with (
        exclusive(tmp_path / "page", "busy"),
        pytest.raises(MemeloomError, match=r"^busy$"),
        exclusive(tmp_path / "page", "busy"),
    ):
        pass
    with exclusive(tmp_path / "page", "busy"):
        pass


def test_two_names_of_one_folder_share_a_lock(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    with (
        exclusive(tmp_path / "folder", "busy"),
        pytest.raises(MemeloomError, match="busy"),
        exclusive(tmp_path / "link", "busy"),
    ):
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


def test_an_unlinked_lock_file_locks_nobody_out(tmp_path: Path) -> None:
    with exclusive(tmp_path / "page", "busy"):
        (tmp_path / ".page.lock").unlink()
        with exclusive(tmp_path / "page", "busy"):
            pass


def test_a_place_that_cannot_be_locked_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_folder_is_replaced_when_the_new_one_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "new" / "data"
    for content, former in (("one", None), ("two", "one")):
        with replace_folder(path, "a dataset", _is_ours) as folder:
            _put(folder, content)
            assert (path / "content").read_text() == former if former else not path.exists()
    assert (path / "content").read_text() == "two"
    assert _others(path.parent) == []


def test_an_error_leaves_the_former_folder(tmp_path: Path) -> None:
    _put(tmp_path / "data", "one")
    with suppress(ZeroDivisionError), replace_folder(tmp_path / "data", "a dataset", _is_ours) as folder:
        _put(folder, str(1 / 0))
    assert (tmp_path / "data" / "content").read_text() == "one"
    assert _others(tmp_path) == []


@pytest.mark.parametrize("killed", ["before the swap", "in the swap", "after the swap"])
def test_the_next_call_tidies_up_after_a_killed_one(tmp_path: Path, killed: str) -> None:
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


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "disk" / "data")
    with replace_folder(tmp_path / "data", "a dataset", _is_ours) as folder:
        _put(folder, "one")
    assert (tmp_path / "data").is_symlink()
    assert (tmp_path / "disk" / "data" / "content").read_text() == "one"


def test_two_processes_never_replace_the_same_folder(tmp_path: Path) -> None:
    with replace_folder(tmp_path / "data", "a dataset", _is_ours) as folder:
        _put(folder, "one")
        with (
            pytest.raises(MemeloomError, match=r"another process is writing .*data; wait"),
            replace_folder(tmp_path / "data", "a dataset", _is_ours),
        ):
            pytest.fail("the block must not run")
    assert (tmp_path / "data" / "content").read_text() == "one"
