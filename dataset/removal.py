"""Which datasets still hold what was removed from the catalog."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from memeloom.catalog.documents import batched
from memeloom.configs.errors import MemeloomError
from memeloom.configs.progress import Progress
from memeloom.dataset.formats.registry import FORMATS, check_readable
from memeloom.dataset.manifest import Manifest, read_manifest
from memeloom.dataset.verify import records_of

# Records asked about at once: an id and a key of each are in memory.
_BATCH = 5000

# Those of some ids, or of some blob keys, that were removed.
Removed: TypeAlias = Callable[[list[str]], set[str]]


@dataclass(frozen=True, slots=True)
class Holding:
    """What a dataset holds of what was removed.

    records: how many it has. memes: records of removed memes. pictures: further records that show a removed picture.
    templates: templates whose clean picture was removed. settings: those it was built with.
    fault: why nobody can tell; None if all of it was read.
    """

    folder: Path
    records: int = 0
    memes: int = 0
    pictures: int = 0
    templates: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    fault: str | None = None

    @property
    def concerned(self) -> bool:
        """Whether it has to be built again."""
        return bool(self.memes or self.pictures or self.templates or self.fault)


def find_removed(folder: Path, memes: Removed, pictures: Removed, progress: Progress) -> Holding:
    """Read all records of the dataset in `folder`, in memory that does not grow with it.

    A dataset that is damaged, or of another version, is a `fault` and no error: what it holds may be anything.
    A `dummy` dataset has no records; only its templates are looked at.

    Raises:
        StoreError: the catalog, which `memes` and `pictures` ask, failed.
    """
    try:
        manifest = read_manifest(folder)
        check_readable(manifest.format)
    except MemeloomError as error:
        return Holding(folder, fault=str(error))
    templates = len(pictures([template.image_key for template in manifest.templates if template.image_key]))
    of_memes = of_pictures = 0
    progress.start(f"look into {folder.name}", manifest.records, "records")
    records = _Records(folder, manifest)
    for batch in batched(records, _BATCH):
        removed = memes([meme_id for meme_id, _ in batch])
        gone = pictures([key for meme_id, key in batch if key and meme_id not in removed])
        of_memes += sum(meme_id in removed for meme_id, _ in batch)
        of_pictures += sum(meme_id not in removed and key in gone for meme_id, key in batch)
        progress.advance(len(batch))
    progress.finish()
    return Holding(folder, manifest.records, of_memes, of_pictures, templates, manifest.lineage.settings, records.fault)


class _Records:
    """Yields id and picture of each record, up to the first one that cannot be read: `fault` says why."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.fault: str | None = None
        self._folder = folder
        self._manifest = manifest

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Shard by shard."""
        if not FORMATS[self._manifest.format].counted:
            return
        try:
            for shard in self._manifest.shards:
                for record in records_of(self._folder, self._manifest, shard):
                    yield record.id, record.image_key
        except MemeloomError as error:
            self.fault = str(error)
