"""Replace a dataset in an object store.

Nothing there can be renamed, so the manifest decides: it is deleted first and written last, and readers refuse a folder
without one. A marker beside the folder tells an interrupted replacement from a folder of something else.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memeloom.configs.errors import MemeloomError
from memeloom.dataset.manifest import MANIFEST
from memeloom.dataset.remote.files import Place, RemoteFiles
from memeloom.dataset.remote.lock import remote_lock
from memeloom.dataset.remote.work import RemoteWork, new_run

_MARKER = "replacing"


def work_place(output: Place) -> Place:
    """Return the place of the work folder of the dataset at `output`."""
    return output.beside(f".{output.name}.work")


def state_files(output: Place) -> RemoteFiles:
    """Return the folder with the lock and the marker of the dataset at `output`."""
    return RemoteFiles(output.beside(f".{output.name}.state"))


class RemoteOutput:
    """A dataset that is being written; see `dataset.output.Output`."""

    def __init__(self, work: RemoteWork, folder: Path) -> None:
        self.folder = folder
        self._work = work
        # Names in the work folder, by file of the dataset.
        self._added: dict[str, str] = {}

    def add(self, name: str, file: str) -> None:
        """Add a finished file, called `name` in the work folder, as `file`."""
        self._added[file] = name

    def local(self, file: str) -> Path:
        """Return the path in `folder` of a file that was added, to read it."""
        path = self.folder / file
        if not path.exists():
            self._work.link(self._added[file], path)
        return path

    def replace(self, output: RemoteFiles) -> None:
        """Replace the files of the dataset: copied on the server, or uploaded; the manifest last."""
        output.delete([MANIFEST])
        written = sorted({path.name for path in self.folder.iterdir()} - {MANIFEST, *self._added})
        output.delete(sorted({*output.names()} - {*written, *self._added}))
        for file, name in self._added.items():
            self._work.files.copy(name, output, file)
        for name in (*written, MANIFEST):
            output.upload(name, self.folder / name)


@contextmanager
def replace_remote(place: Place) -> Iterator[tuple[RemoteWork, RemoteOutput]]:
    """Yield the work folder and an empty dataset, which replaces the one at `place` when the block succeeds.

    After a kill, the former dataset or an incomplete one is there, which readers refuse; the next build replaces it.

    Raises:
        MemeloomError: there is something else, another process is writing it, or the store failed.
    """
    output, state = RemoteFiles(place), state_files(place)
    lock = RemoteFiles(place.beside(f".{place.name}.lock"))
    with remote_lock(lock, f"another process is writing {place}; wait until it has ended") as check:
        if not is_replaceable(output, state):
            raise MemeloomError(f"{place} exists and is not a dataset; choose another output folder")
        work = new_run(work_place(place))
        folder = Path(tempfile.mkdtemp(prefix="dataset-", dir=work.root))
        try:
            new = RemoteOutput(work, folder)
            yield work, new
            check()
            state.write(_MARKER, b"")
            new.replace(output)
            state.delete([_MARKER])
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            work.remove_copies()


def is_replaceable(output: RemoteFiles, state: RemoteFiles) -> bool:
    """Return True for a dataset, one whose replacement was interrupted, or an empty folder."""
    if output.has(MANIFEST) or state.has(_MARKER):
        return True
    return next(iter(output.names()), None) is None
