"""The work folder beside a dataset: intermediate results, so that builds resume or are incremental.

    plan.json        input of all workers
    blocks/          filtered pieces of the catalog, named by the hash of their input
    near/, chosen/   near-duplicates among the blocks, and the captions kept
    shards/          finished files with their statistics, named by the hash of their input

The folder is a cache: it may be removed at any time except during a build.
"""

import hashlib
import shutil
import zlib
from collections.abc import Collection, Iterable, Iterator
from functools import cache, lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from memeloom.catalog import english
from memeloom.configs.errors import MemeloomError
from memeloom.configs.outputs import atomic_file, folder_lock, restore_folder
from memeloom.configs.schema import Dataset
from memeloom.dataset.flow.memes import Named, Naming, Picture
from memeloom.engine import steps

# Packages whose code, word lists or models filter captions.
_JUDGING_PACKAGES = ("better_profanity", "langdetect", "py3langid")
_JUDGING_LIBRARY = "pyahocorasick"  # compiled: its version is hashed instead
_CHUNK = 2**20
# Settings without effect on blocks.
_LATER_SETTINGS = frozenset({
    "output", "keep_work", "templates", "captions_per_template", "min_captions_per_template", "format",
    "compression", "shard_records", "min_word_count", "max_words",
})  # fmt: skip


class Plan(NamedTuple):
    """The input of all workers.

    Attributes:
        naming: Names and pictures of the catalog's templates.
        digest: Hash of the settings and code that decide about blocks.
        whole: Hash of the whole plan.
    """

    settings: Dataset
    naming: Naming
    digest: str
    whole: str


def work_folder(output: Path) -> Path:
    """Return the path of the work folder of the dataset in `output`."""
    output = output.resolve()
    return output.with_name(f".{output.name}.work")


def remove_work(output: Path) -> bool:
    """Remove the work folder of the dataset in `output` and leftovers of killed builds beside it: both hold captions.

    Returns:
        False if there was nothing to remove.

    Raises:
        MemeloomError: a build is writing `output`, or removal failed.
    """
    output = output.resolve()
    folder = work_folder(output)
    beside = (folder, *(output.with_name(f".{output.name}.{what}") for what in ("building", "former")))
    if not any(path.exists() for path in beside):
        return False
    try:
        with folder_lock(output):
            restore_folder(output)
            _remove(folder)
    except OSError as error:
        raise MemeloomError(f"cannot remove {folder}: {error.strerror or error}") from error
    return True


class WorkFolder:
    """Paths and files below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write_plan(self, settings: Dataset, naming: Naming) -> Plan:
        """Write `plan.json` and return the plan."""
        deciding = settings.model_dump(mode="json", exclude=set(_LATER_SETTINGS))
        digest = digest_of(code_digest(), deciding)
        content = {"settings": settings.model_dump(mode="json"), "naming": naming, "digest": digest}
        whole = digest_of(content)
        try:
            self.root.mkdir(exist_ok=True)
        except OSError as error:
            raise MemeloomError(f"cannot write {self.root}: {error.strerror}") from error
        self.write("plan.json", {**content, "whole": whole})
        return Plan(settings, naming, digest, whole)

    def path(self, name: str) -> Path:
        """Return the path of a file."""
        return self.root / name

    def block(self, key: str) -> Path:
        """Return the path of a block."""
        return self.root / "blocks" / key

    def write(self, name: str, value: Any) -> None:
        """Write JSON and a line with its checksum, atomically."""
        data = orjson.dumps(value, default=list)  # named tuples
        with atomic_file(self.root / name) as stream:
            stream.write(b"%b\n%08x\n" % (data, zlib.crc32(data)))

    def read(self, name: str) -> Any:
        """Return the JSON that `write` wrote, or None if the file is missing or damaged."""
        try:
            data, checksum = self.path(name).read_bytes().split(b"\n", 1)
            return orjson.loads(data) if checksum == b"%08x\n" % zlib.crc32(data) else None
        except (OSError, ValueError):
            return None

    def write_result(self, name: str, rows: bytes, metadata: dict[str, Any]) -> None:
        """Write the result of a worker, durably: rows first, then their metadata."""
        with atomic_file(self.rows(name)) as stream:
            stream.write(rows)
        self.write(f"{name}.json", {**metadata, "bytes": len(rows), "checksum": zlib.crc32(rows)})

    def has_result(self, name: str) -> bool:
        """Return True if a result is complete and undamaged."""
        metadata = self.read(f"{name}.json")
        return metadata is not None and checksum_of(self.rows(name)) == (metadata["bytes"], metadata["checksum"])

    def metadata(self, name: str) -> Any:
        """Return the metadata of an existing result. Raises MemeloomError if the file is damaged."""
        metadata = self.read(f"{name}.json")
        if metadata is None:
            raise MemeloomError(f"{self.path(name)}.json: damaged; build the dataset again")
        return metadata

    def rows(self, name: str) -> Path:
        """Return the path of the rows of a result."""
        return self.path(f"{name}.rows")

    def link(self, name: str, target: Path) -> None:
        """Link a file to `target`; copy it where the file system has no hard links."""
        try:
            target.hardlink_to(self.path(name))
        except OSError:
            shutil.copyfile(self.path(name), target)

    def clear(self, name: str) -> None:
        """Make an empty folder, whatever a killed build left there."""
        _remove(self.root / name)
        self.path(name).mkdir()

    def remove(self) -> None:
        """Remove the folder."""
        _remove(self.root)

    def prune(self, blocks: Iterable[str], chosen: str, shards: Iterable[str]) -> None:
        """Remove all files that the last build did not use; they may contain text of removed memes."""
        self._keep_only("", {"plan.json", "blocks", "near", "chosen", "shards"})
        self._keep_only("blocks", set(blocks))
        self._keep_only("near", {chosen})
        self._keep_only("chosen", {chosen})
        self._keep_only("shards", set(shards))

    def _keep_only(self, folder: str, names: Collection[str]) -> None:
        try:
            for path in (self.root / folder).iterdir():
                if path.name not in names:
                    _remove(path)
        except FileNotFoundError:
            return


@lru_cache(maxsize=1)
def read_plan(root: Path, whole: str) -> Plan:
    """Return the plan with the hash `whole`; cached per process.

    Raises:
        MemeloomError: this machine does not see the folder.
    """
    content = WorkFolder(root).read("plan.json")
    if content is None or content["whole"] != whole:
        raise MemeloomError(
            f"a worker cannot see {root}; on a cluster, dataset.output must lie on a disk that all machines share"
        )
    naming = {name: values and _named(values) for name, values in content["naming"].items()}
    return Plan(Dataset.model_validate(content["settings"]), naming, content["digest"], whole)


def _named(values: list[Any]) -> Named:
    named = Named(*values)
    return named._replace(picture=named.picture and Picture(*named.picture))


@cache
def code_digest() -> str:
    """Return a hash of all code and data, besides settings and memes, that decide which captions a block holds.

    Computed once per process (0.06 s): later edits of the files do not change the code that runs.
    """
    digest = hashlib.blake2b(version(_JUDGING_LIBRARY).encode(), digest_size=16)
    for name, path in deciding_files():
        content = path.read_bytes()
        digest.update(b"%b %d\n" % (name.encode(), len(content)))
        digest.update(content)
    return digest.hexdigest()


def deciding_files() -> Iterator[tuple[str, Path]]:
    """Yield name and path of each file that decides about captions: code, word lists and language models."""
    rooms = [("dataset", Path(__file__).parents[1])]
    for package in _JUDGING_PACKAGES:
        spec = find_spec(package)
        rooms += [(package, Path(folder)) for folder in (spec and spec.submodule_search_locations) or ()]
    for module in (english, steps):
        yield module.__name__, Path(module.__file__ or "")
    for room, folder in rooms:
        for path in sorted(folder.rglob("*")):
            # Includes unneeded sources such as tests of the packages: too many files are harmless.
            if path.is_file() and path.suffix != ".pyc":
                yield f"{room}/{path.relative_to(folder)}", path


def checksum_of(path: Path, start: int = 0) -> tuple[int, int] | None:
    """Return the number of bytes from `start` on and their CRC-32, or None if the file cannot be read."""
    size = checksum = 0
    try:
        with path.open("rb", buffering=0) as stream:
            stream.seek(start)
            while data := stream.read(_CHUNK):
                size, checksum = size + len(data), zlib.crc32(data, checksum)
    except OSError:
        return None
    return size, checksum


def digest_of(*values: Any) -> str:
    """Return a hash of JSON values, to name their result by."""
    return hashlib.blake2b(orjson.dumps(values, default=list, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()


def name_hash(name: str | bytes) -> int:
    """Return a hash of 64 bits."""
    content = name.encode() if isinstance(name, str) else name
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
