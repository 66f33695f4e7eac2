"""The manifest of a dataset: its contents and its origin.

It is written last, so a folder without one is not a dataset.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memeloom.catalog.records import TemplateBox
from memeloom.configs.errors import MemeloomError
from memeloom.configs.outputs import write_json
from memeloom.dataset.formats.contract import Compression, FormatName
from memeloom.dataset.schema import SCHEMA_VERSION, SPLITS, Kind, Split, Values

MANIFEST = "manifest.json"
KIND: Final = "memeloom dataset"
# Version 5 counted the vocabularies over all splits; all else is the same.
_READABLE = (5, SCHEMA_VERSION)


class NotADataset(MemeloomError):
    """A folder that is not a dataset, one of another version, or one with missing or changed files."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class File(_Part):
    """A file of the dataset; its name cannot lead outside the folder."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    bytes: int
    sha256: str


class Shard(File):
    """A file of records."""

    split: Split
    records: int


class PictureFile(File):
    """A file of pictures, each once, that records refer to by `image_key`."""

    pictures: int


class DroppedFile(File):
    """A file of dropped captions."""

    records: int


class DatasetTemplate(_Part):
    """A template of the dataset.

    captions: records in all splits.
    boxes: the most frequent number of boxes of its captions.
    box_count, geometry: number and places of its boxes as the source states; None and empty if unknown.
    image_key: its clean picture in the blob store (the site's, else the one made from memes), if known.
    """

    id: str
    name: str
    slug: str
    captions: int
    boxes: int
    box_count: int | None
    geometry: tuple[TemplateBox, ...]
    image_key: str | None


class Feature(_Part):
    """A feature of the records."""

    name: str
    kind: Kind
    values: Values
    about: str


class Lineage(_Part):
    """Origin of the dataset: resolved `dataset` settings, the code's commit, the catalog's counts."""

    settings: Mapping[str, Any]
    commit: str
    memes: int
    sources: Mapping[str, int]


class Manifest(_Part):
    """The contents of `manifest.json`.

    kept: records by source. dropped: memes by reason. splits: records by split, always all three.
    templates: those with records, most captions first.
    by_source: dropped memes by source and reason.
    details: matches of each list entry, by reason.
    clusters: number of groups of equal captions, by size.
    images: pictures of the records: the templates', the memes', or the memes' without their words.
    picture_files: the pictures, if the records refer to them, as they do to those of templates.
    dropped_files: the dropped captions, if they were kept; see `dataset.dropped`.
    vocabulary, word_list: the characters and the most frequent words of the training captions.
    characters, words: sizes of both.
    """

    kind: Literal["memeloom dataset"] = KIND
    schema_version: Literal[5, 6] = SCHEMA_VERSION
    records: int
    splits: Mapping[Split, int]
    kept: Mapping[str, int]
    dropped: Mapping[str, int]
    by_source: Mapping[str, Mapping[str, int]]
    details: Mapping[str, Mapping[str, int]]
    clusters: Mapping[int, int]
    separator: str
    format: FormatName
    compression: Compression
    images: Literal["none", "template", "meme", "inpainted"]
    features: tuple[Feature, ...]
    vocabulary: File
    characters: int
    word_list: File
    words: int
    shards: tuple[Shard, ...]
    picture_files: tuple[PictureFile, ...] = ()
    dropped_files: tuple[DroppedFile, ...] = ()
    templates: tuple[DatasetTemplate, ...]
    lineage: Lineage

    @property
    def digest(self) -> str:
        """The dataset's identity: 12 hex digits of the sha256 of its shards' names and hashes."""
        shards = "\n".join(sorted(f"{shard.name} {shard.sha256}" for shard in self.shards))
        return hashlib.sha256(shards.encode()).hexdigest()[:12]

    @property
    def counted_splits(self) -> frozenset[Split]:
        """The splits whose captions the vocabularies count."""
        return frozenset(SPLITS if self.schema_version < SCHEMA_VERSION else ("train",))

    @property
    def files(self) -> tuple[File, ...]:
        """All required files besides the manifest."""
        return *self.shards, *self.picture_files, *self.dropped_files, self.vocabulary, self.word_list

    @property
    def bytes(self) -> int:
        """Size of records and pictures."""
        return sum(file.bytes for file in (*self.shards, *self.picture_files))

    @property
    def keeps_dropped(self) -> bool:
        """True if the dataset was built with its dropped captions; there may be none."""
        return bool(self.lineage.settings.get("keep_dropped"))

    def paths(self, folder: Path, split: Split) -> list[Path]:
        """Return the shards of `split`, in order."""
        return [folder / shard.name for shard in self.shards if shard.split == split]

    def write(self, folder: Path) -> Path:
        """Write `manifest.json` into `folder`, atomically, and return its path."""
        path = folder / MANIFEST
        write_json(path, self.model_dump(mode="json"))
        return path


def is_dataset(folder: Path) -> bool:
    """Return True if `folder` has a manifest, valid or not."""
    return (folder / MANIFEST).is_file()


def check_file(folder: Path, file: File) -> None:
    """Raise NotADataset unless the file has the sha256 of its manifest."""
    if file_sha256(folder / file.name) != file.sha256:
        raise NotADataset(f"{folder / file.name}: its sha256 is not the manifest's; build the dataset again")


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of the dataset in `folder`; check that every file exists and has its size.

    Raises:
        NotADataset: the manifest is missing, unreadable or of another version; a file is missing or of another size.
    """
    path = folder / MANIFEST
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise no_dataset(folder) from None
    except OSError as error:
        raise NotADataset(f"{path}: cannot be read ({error}); build the dataset again") from error
    manifest = parse_manifest(path, content)
    for file in manifest.files:
        _check_size(folder, file)
    return manifest


def no_dataset(place: object) -> NotADataset:
    """Return the error for a place without a manifest."""
    return NotADataset(f"{place}: no dataset here (no {MANIFEST}); build one with `memeloom build-dataset`")


def parse_manifest(path: object, content: bytes) -> Manifest:
    """Return the manifest that `content` holds. path: for messages. Raises NotADataset."""
    try:
        return _checked(path, json.loads(content))
    except (ValueError, RecursionError) as error:
        raise NotADataset(f"{path}: cannot be read ({error}); build the dataset again") from error


def _checked(path: object, content: Any) -> Manifest:
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise NotADataset(f"{path}: not the manifest of a memeloom dataset")
    if (found := content.get("schema_version")) not in _READABLE:
        raise NotADataset(f"{path}: schema version {found}, expected {SCHEMA_VERSION}; build the dataset again")
    try:
        manifest = Manifest.model_validate(content)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise NotADataset(f"{path}: {where}: {problem['msg']}; build the dataset again") from error
    if set(manifest.splits) != set(SPLITS):
        raise NotADataset(f"{path}: splits: expected {', '.join(SPLITS)}; build the dataset again")
    return manifest


def _check_size(folder: Path, file: File) -> None:
    try:
        size = (folder / file.name).stat().st_size
    except OSError:
        raise NotADataset(f"{folder / file.name}: missing; build the dataset again") from None
    if size != file.bytes:
        raise NotADataset(f"{folder / file.name}: {size:,} bytes, expected {file.bytes:,}; build the dataset again")


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
