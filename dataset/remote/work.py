"""A work folder in an object store: workers on many machines share it, and no disk.

Each machine keeps copies of what its workers read and write in `$MEMELOOM_CACHE`, for one run of the builder: a later
run starts with an empty copy, so that every file in it was written or verified in this run.
"""

import os
import shutil
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache
from hashlib import sha256 as hash_of
from pathlib import Path
from typing import IO

from memeloom.catalog.errors import StoreCorrupt
from memeloom.configs.errors import MemeloomError
from memeloom.configs.locks import exclusive
from memeloom.configs.outputs import cache_folder, unwritable
from memeloom.dataset.flow.work import WorkFolder, WorkPlace
from memeloom.dataset.remote.files import Place, RemoteFiles, RemotePlace

# Locks of downloads, each for part of the files.
_LOCKS = 64
_DOWNLOAD_SECONDS = 600.0


def new_run(folder: Place) -> "RemoteWork":
    """Return the work folder for a new run of the builder on this machine."""
    return RemoteWork(RemotePlace(folder, uuid.uuid4().hex))


@lru_cache(maxsize=1)
def open_remote_work(place: RemotePlace) -> "RemoteWork":
    """Return the work folder of a run; cached per process."""
    return RemoteWork(place)


def copies_of(folder: Place) -> Path:
    """Return where this machine keeps copies of the files at an address."""
    address = f"{folder.store.s3.endpoint} {folder.address}"
    return cache_folder() / "datasets" / hash_of(address.encode()).hexdigest()[:16]


class RemoteWork(WorkFolder):
    """A work folder in an object store, with the copies of one run on this machine.

    Raises:
        MemeloomError: the folder for copies cannot be written; the store failed.
    """

    def __init__(self, place: RemotePlace) -> None:
        copies = copies_of(place.folder)
        super().__init__(copies / place.run)
        self._place = place
        self._files = RemoteFiles(place.folder)
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            # The lock of the output allows one run: the others have ended.
            for former in copies.iterdir():
                if former.name != place.run:
                    shutil.rmtree(former, ignore_errors=True)
        except OSError as error:
            raise unwritable(self.root, error) from error

    @property
    def place(self) -> WorkPlace:
        return self._place

    @property
    def files(self) -> RemoteFiles:
        """The files in the store."""
        return self._files

    def path(self, name: str) -> Path:
        path = self.root / name
        if not path.exists():
            stripe = int(hash_of(name.encode()).hexdigest(), 16) % _LOCKS
            busy = f"cannot read {self._files.address(name)}: not downloaded within {_DOWNLOAD_SECONDS:g} s"
            with exclusive(self.root / "locks" / f"{stripe:02}", busy, wait_seconds=_DOWNLOAD_SECONDS):
                if not path.exists() and not self._files.download(name, path):
                    raise MemeloomError(f"{self._files.address(name)}: missing; build the dataset again")
        return path

    def has(self, name: str) -> bool:
        return self._files.has(name)

    def holds(self, name: str, sha256: str) -> bool:
        return self._files.sha256(name) == sha256

    @contextmanager
    def create(self, name: str) -> Iterator[IO[bytes]]:
        with super().create(name) as stream:
            yield stream
        self._files.upload(name, self.root / name)

    def publish(self, name: str) -> None:
        path = self.root / name
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            self._files.upload(str(file.relative_to(self.root)), file)
            file.unlink()

    def has_result(self, name: str) -> bool:
        # The metadata is written last, and downloads are verified.
        return {f"{name}.json", f"{name}.rows"} <= self._found and self.read(f"{name}.json") is not None

    def blocks(self) -> list[str]:
        names = [name.removeprefix("blocks/") for name in self._found if name.startswith("blocks/")]
        return sorted(name.removesuffix(".json") for name in names if name.endswith(".json"))

    @cached_property
    def _found(self) -> frozenset[str]:
        """Names of the files that earlier runs left."""
        return frozenset(self._files.names())

    def clear(self, name: str) -> None:
        super().clear(name)
        self._files.delete(list(self._files.names(f"{name}/")))

    def remove(self) -> None:
        self._files.delete(list(self._files.names()))
        self.remove_copies()

    def remove_copies(self) -> None:
        """Remove this machine's copies."""
        shutil.rmtree(self.root, ignore_errors=True)
        with suppress(OSError):
            self.root.parent.rmdir()

    def _keep_only(self, names: Mapping[str, Collection[str]]) -> None:
        def is_kept(name: str) -> bool:
            folder, _, rest = name.rpartition("/") if "/" not in name else name.partition("/")
            return rest.partition("/")[0].partition(".")[0] in names.get(folder, ())

        self._files.delete([name for name in self._files.names() if not is_kept(name)])

    def _content(self, name: str) -> bytes:
        try:
            content = self._files.read(name)
        except StoreCorrupt as error:
            raise ValueError(str(error)) from error
        if content is None:
            raise FileNotFoundError(os.strerror(2), self._files.address(name))
        return content
