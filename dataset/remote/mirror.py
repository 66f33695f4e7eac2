"""Verified local copies of datasets in an object store, for readers."""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from memeloom.catalog.errors import StoreCorrupt
from memeloom.configs.load import load_config
from memeloom.configs.locks import exclusive
from memeloom.configs.outputs import atomic_file, remove_leftovers, unwritable, write_json
from memeloom.configs.progress import SILENT, Progress
from memeloom.configs.schema import Store
from memeloom.dataset.manifest import MANIFEST, File, NotADataset, no_dataset, parse_manifest
from memeloom.dataset.remote.files import RemoteFiles, is_remote, place_at
from memeloom.dataset.remote.work import copies_of

_DOWNLOADS = 8
# Waiting for another process that copies the same dataset.
_WAIT_SECONDS = 86_400.0
_SEEN = "copied.json"
_HELD = ".held"
# Descriptors of the locks of this process on its copies, by file. They end with the process: a file object would
# be closed, and warned of, when the interpreter removes it.
_held: dict[Path, int] = {}


def local_folder(
    address: str | Path, store: Callable[[], Store] = lambda: load_config().store, progress: Progress = SILENT
) -> Path:
    """Return a folder with the dataset at `address`: the folder itself, or a verified copy of an ``s3://`` address.

    The copy is in `$MEMELOOM_CACHE`. Each file is compared with the sha256 in the manifest when it is downloaded; a
    later call downloads only what is missing or has another size or time, and what the builder has replaced.

    Args:
        address: a path, or ``s3://BUCKET/FOLDER``.
        store: returns the settings of the object store; called for an address only.
        progress: counts the files.

    Raises:
        NotADataset: no dataset is there, or it is being replaced.
        ConfigError: the address names no folder.
        StoreError: the store failed.
        MemeloomError: the copy cannot be written.
    """
    if isinstance(address, Path) or not is_remote(address):
        return Path(address)
    place = place_at(address, store())
    files = RemoteFiles(place)
    content = files.read(MANIFEST)
    if content is None:
        raise no_dataset(place)
    manifest = parse_manifest(files.address(MANIFEST), content)
    copies = copies_of(place)
    folder = copies / hashlib.sha256(content).hexdigest()[:16] / place.name
    with exclusive(copies, f"another process is copying {place}", wait_seconds=_WAIT_SECONDS):
        _hold(folder)
        _Copy(files, folder, progress).complete(manifest.files)
        with atomic_file(folder / MANIFEST) as stream:
            stream.write(content)
        _remove_former(copies, folder.parent)
    return folder


class _Copy:
    """A copy of a dataset in `folder`, which remembers size and time of the files that it has verified."""

    def __init__(self, files: RemoteFiles, folder: Path, progress: Progress) -> None:
        self._files, self._folder, self._progress = files, folder, progress

    def complete(self, wanted: tuple[File, ...]) -> None:
        """Download what is missing."""
        seen = self._seen()
        missing = [file for file in wanted if file.name not in seen or seen[file.name] != self._state(file.name)]
        if not missing:
            return
        remove_leftovers(self._folder)
        self._progress.start(f"copy {self._files.place}", sum(file.bytes for file in missing), "bytes")
        done = {file.name for file in wanted} - {file.name for file in missing}
        try:
            with ThreadPoolExecutor(_DOWNLOADS) as threads:
                for file in threads.map(self._download, missing):
                    done.add(file.name)
                    self._progress.advance(file.bytes)
        finally:
            write_json(self._folder / _SEEN, {name: self._state(name) for name in sorted(done)})
        self._progress.finish()

    def _download(self, file: File) -> File:
        try:
            found = self._files.download(file.name, self._folder / file.name, (file.bytes, file.sha256))
        except StoreCorrupt:
            found = False
        if not found:
            raise NotADataset(
                f"{self._files.address(file.name)}: missing, or not the manifest's; if a build is replacing the"
                " dataset, try again when it has ended, else build it again"
            )
        return file

    def _seen(self) -> dict[str, list[int]]:
        try:
            found = json.loads((self._folder / _SEEN).read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _state(self, name: str) -> list[int] | None:
        try:
            stat = (self._folder / name).stat()
        except OSError:
            return None
        return [stat.st_size, stat.st_mtime_ns]


def _hold(folder: Path) -> None:
    """Keep other processes from removing a copy while this one runs."""
    path = folder / _HELD
    if path in _held:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        except OSError:
            os.close(descriptor)
            raise
    except OSError as error:
        raise unwritable(path, error) from error
    _held[path] = descriptor


def _remove_former(copies: Path, current: Path) -> None:
    """Remove copies of replaced datasets that no process holds."""
    for path in copies.glob(f"*/*/{_HELD}"):
        folder = path.parents[1]
        if folder != current and path not in _held:
            with path.open("ab") as stream, suppress(BlockingIOError):
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
