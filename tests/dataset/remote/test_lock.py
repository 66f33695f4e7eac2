"""The lock of a dataset in an object store."""

import multiprocessing
import os
import signal
import threading

import pytest

from memeloom.configs.errors import MemeloomError
from memeloom.dataset.remote import lock
from memeloom.dataset.remote.files import Place, RemoteFiles
from memeloom.dataset.remote.lock import remote_lock

BUSY, LOST = "another process is writing it", "the lock was lost"


@pytest.fixture
def files(place: Place) -> RemoteFiles:
    return RemoteFiles(place)


def test_one_owner_at_a_time(files: RemoteFiles) -> None:
    with remote_lock(files, BUSY, LOST) as check:
        with pytest.raises(MemeloomError, match=BUSY), remote_lock(files, BUSY, LOST):
            pass
        check()
    with remote_lock(files, BUSY, LOST) as check:
        check()


def test_of_many_that_try_at_once_one_gets_it(files: RemoteFiles) -> None:
    together, ended = threading.Barrier(8), threading.Barrier(8)
    owners: list[int] = []

    def take(number: int) -> None:
        together.wait(30)
        try:
            with remote_lock(files, BUSY, LOST):
                owners.append(number)
                ended.wait(30)
        except MemeloomError:
            ended.wait(30)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(owners) == 1


def test_the_lock_of_a_crashed_owner_is_taken_over(files: RemoteFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    files.create("000000000007", b"crashed")
    with pytest.raises(MemeloomError, match=BUSY), remote_lock(files, BUSY, LOST):
        pass
    monkeypatch.setattr(lock, "_STALE_SECONDS", 0.0)
    with remote_lock(files, BUSY, LOST):
        assert sorted(files.names()) == ["000000000008", "clock"]


def test_a_crash_on_this_machine_is_seen_at_once(files: RemoteFiles) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_take_and_crash, args=(files.place,))
    process.start()
    process.join(60)
    assert set(files.names()) == {"000000000000"}
    with remote_lock(files, BUSY, LOST):
        assert set(files.names()) == {"000000000001"}


def _take_and_crash(place: Place) -> None:
    with remote_lock(RemoteFiles(place), BUSY, LOST):
        os.kill(os.getpid(), signal.SIGKILL)


def test_an_owner_that_was_replaced_is_told(files: RemoteFiles) -> None:
    with remote_lock(files, BUSY, LOST) as check:
        files.create("000000000001", b"took over")
        with pytest.raises(MemeloomError, match=LOST):
            check()
    assert "000000000001" in set(files.names()), "the lock of the new owner stays"


def test_an_owner_that_slept_loses_the_lock_to_a_later_one_of_the_same_number(
    files: RemoteFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    with remote_lock(files, BUSY, LOST) as check:
        (name,) = files.names()
        files.write(name, b"another owner, after this one's lock expired and was released")
        with pytest.raises(MemeloomError, match=LOST):
            check()
    assert set(files.names()) == {name}
    files.delete([name])
    with remote_lock(files, BUSY, LOST) as check:
        monkeypatch.setattr(lock, "_STALE_SECONDS", -1.0)
        with pytest.raises(MemeloomError, match=LOST):
            check()


def test_the_owner_rewrites_its_file(files: RemoteFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_BEAT_SECONDS", 0.02)
    written = threading.Event()
    write = RemoteFiles.write

    def noted(self: RemoteFiles, name: str, data: bytes) -> None:
        write(self, name, data)
        written.set()

    monkeypatch.setattr(RemoteFiles, "write", noted)
    with remote_lock(files, BUSY, LOST):
        assert written.wait(30)
