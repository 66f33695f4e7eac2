"""Find datasets that still contain memes or pictures removed from the catalog."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from memeloom.catalog.documents import batched
from memeloom.configs.errors import MemeloomError
from memeloom.configs.progress import Progress
from memeloom.dataset.dropped import read_dropped
from memeloom.dataset.formats.registry import check_readable
from memeloom.dataset.manifest import read_manifest
from memeloom.dataset.remote.files import Place
from memeloom.dataset.verify import all_records

# Ids and keys in memory at once.
_BATCH = 5000

# Returns the removed ones among the given ids or blob keys.
Removed: TypeAlias = Callable[[list[str]], set[str]]


@dataclass(frozen=True, slots=True)
class Holding:
    """Removed memes and pictures in a dataset.

    Attributes:
        folder: where the dataset is.
        records: number of records.
        memes: records of removed memes.
        dropped: dropped captions of removed memes, if the dataset keeps them.
        pictures: further records with a removed picture.
        templates: templates whose clean picture was removed.
        settings: settings of the build.
        fault: why reading stopped early, or None.
    """

    folder: Path | Place
    records: int = 0
    memes: int = 0
    pictures: int = 0
    templates: int = 0
    dropped: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    fault: str | None = None

    @property
    def affected(self) -> bool:
        """True if the dataset must be rebuilt."""
        return bool(self.memes or self.dropped or self.pictures or self.templates or self.fault)


def find_removed(folder: Path, memes: Removed, pictures: Removed, progress: Progress) -> Holding:
    """Search all records and dropped captions of the dataset in `folder`, in bounded memory.

    A damaged dataset, or one of another version, has a `fault`: it may contain anything. A `dummy` dataset has no
    records.

    Raises:
        StoreError: the catalog, which `memes` and `pictures` query, failed.
    """
    try:
        manifest = read_manifest(folder)
        check_readable(manifest.format)
    except MemeloomError as error:
        return Holding(folder, fault=str(error))
    templates = len(pictures([template.image_key for template in manifest.templates if template.image_key]))
    of_memes = of_pictures = 0
    progress.start(f"search {folder.name}", manifest.records, "records")
    fault = None

    def read() -> Iterator[tuple[str, str]]:
        """Yield id and picture key of each record up to the first unreadable one."""
        nonlocal fault
        try:
            for record in all_records(folder, manifest):
                yield record.id, record.image_key
        except MemeloomError as error:
            fault = str(error)

    for batch in batched(read(), _BATCH):
        removed = memes([meme_id for meme_id, _ in batch])
        gone = pictures([key for meme_id, key in batch if key and meme_id not in removed])
        of_memes += sum(meme_id in removed for meme_id, _ in batch)
        of_pictures += sum(meme_id not in removed and key in gone for meme_id, key in batch)
        progress.advance(len(batch))
    of_dropped = 0

    def read_ids() -> Iterator[str]:
        """Yield the id of each dropped caption up to the first unreadable one."""
        nonlocal fault
        try:
            for dropped in read_dropped(folder, manifest):
                yield dropped.id
        except MemeloomError as error:
            fault = fault or str(error)

    for ids in batched(read_ids(), _BATCH):
        of_dropped += len(memes(ids))
    progress.finish()
    return Holding(
        folder, manifest.records, of_memes, of_pictures, templates, of_dropped, manifest.lineage.settings, fault
    )
