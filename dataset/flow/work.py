"""The work folder of a dataset, beside it: what a build has done so far, to go on after a kill or to add to later.

    plan.json    what all workers need to know
    blocks/      filtered pieces of the catalog, by the hash of what went in
    near/, chosen/   copies that were found, and what is left without them; of one set of blocks and template names
    shards/      finished files with what was counted in them, by the hash of what went in

Everything here can be made again: it may be removed at any time but during a build.
"""

import hashlib
import shutil
import zlib
from collections.abc import Collection, Iterable
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from memeloom.configs.errors import MemeloomError
from memeloom.configs.outputs import atomic_file
from memeloom.configs.schema import Dataset
from memeloom.dataset.flow.facts import Named, Naming, Picture

# They judge captions, beside our own code.
_JUDGES = ("py3langid", "langdetect")
_CHUNK = 2**20
# These settings decide about nothing before captions are chosen.
_LATER = frozenset({
    "output", "keep_work", "templates", "captions_per_template", "min_captions_per_template", "format",
    "compression", "shard_records", "min_word_count", "max_words",
})  # fmt: skip


class Plan(NamedTuple):
    """What all workers need to know.

    digest: of the settings and the code that decide about blocks. whole: of all that stands here.
    """

    settings: Dataset
    naming: Naming
    digest: str
    whole: str


class WorkFolder:
    """The paths inside `root`, and its housekeeping."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write_plan(self, settings: Dataset, naming: Naming) -> Plan:
        """Begin a build."""
        deciding = settings.model_dump(mode="json", exclude=set(_LATER))
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
        """The path of a file in it."""
        return self.root / name

    def block(self, key: str) -> Path:
        """The path of a block."""
        return self.root / "blocks" / key

    def write(self, name: str, value: Any) -> None:
        """Write JSON, and a line with its checksum, atomically."""
        data = orjson.dumps(value, default=list)  # named tuples
        with atomic_file(self.root / name) as stream:
            stream.write(b"%b\n%08x\n" % (data, zlib.crc32(data)))

    def read(self, name: str) -> Any:
        """The JSON that was written; None if it is not there, or not as it was written."""
        try:
            data, checksum = self.path(name).read_bytes().split(b"\n", 1)
            return orjson.loads(data) if checksum == b"%08x\n" % zlib.crc32(data) else None
        except (OSError, ValueError):
            return None

    def write_result(self, name: str, rows: bytes, told: dict[str, Any]) -> None:
        """Write what a worker found, durably: rows, and then what is told of them."""
        with atomic_file(self.rows(name)) as stream:
            stream.write(rows)
        self.write(f"{name}.json", {**told, "bytes": len(rows), "checksum": zlib.crc32(rows)})

    def has_result(self, name: str) -> bool:
        """Whether a result is there as it was written."""
        told = self.read(f"{name}.json")
        return told is not None and checksum_of(self.rows(name)) == (told["bytes"], told["checksum"])

    def told(self, name: str) -> Any:
        """What is told of a result that is there.

        Raises:
            MemeloomError: it was damaged since.
        """
        told = self.read(f"{name}.json")
        if told is None:
            raise MemeloomError(f"{self.path(name)}.json: not as it was written; build the dataset again")
        return told

    def rows(self, name: str) -> Path:
        """The path of the rows of a result."""
        return self.path(f"{name}.rows")

    def link(self, name: str, target: Path) -> None:
        """Let a file of the work folder stand at `target`, too, or a copy where the disk knows no links."""
        try:
            target.hardlink_to(self.path(name))
        except OSError:
            shutil.copyfile(self.path(name), target)

    def remove(self) -> None:
        """Remove it all."""
        _remove(self.root)

    def prune(self, blocks: Iterable[str], chosen: str, shards: Iterable[str]) -> None:
        """Remove what the last build had no use for: the words of removed memes, too, are in there."""
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
    """The plan whose digest is `whole`; read once in a process.

    Raises:
        MemeloomError: this machine does not see the folder.
    """
    content = WorkFolder(root).read("plan.json")
    if content is None or content["whole"] != whole:
        raise MemeloomError(
            f"a worker cannot see {root}; on a cluster, dataset.output must lie on a disk that all machines share"
        )
    naming = {name: named and _named(*named) for name, named in content["naming"].items()}
    return Plan(Dataset.model_validate(content["settings"]), naming, content["digest"], whole)


def _named(template: str, slug: str, name: str, box_count: int | None, picture: list[Any] | None) -> Named:
    return Named(template, slug, name, box_count, Picture(*picture) if picture else None)


def code_digest() -> str:
    """A hash of the code that decides: of this room, and the versions of the libraries that judge captions."""
    code = hashlib.blake2b(" ".join(map(version, _JUDGES)).encode(), digest_size=16)
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        code.update(path.read_bytes())
    return code.hexdigest()


def checksum_of(path: Path, start: int = 0) -> tuple[int, int] | None:
    """How many bytes a file has from `start` on, and their checksum; None if it cannot be read."""
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
    """A hash of JSON values, to name what follows from them."""
    return hashlib.blake2b(orjson.dumps(values, default=list, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()


def name_hash(name: str | bytes) -> int:
    """64 bits that stand for a name."""
    content = name.encode() if isinstance(name, str) else name
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
