"""What one worker of the stage does: a stored picture in, its sketch out."""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar

from memeloom.catalog.blobs import open_blobs
from memeloom.catalog.errors import BadImage, BlobMissing, StoreCorrupt
from memeloom.catalog.leased import NotDone
from memeloom.catalog.records import Image
from memeloom.configs.errors import ConfigError, MemeloomError
from memeloom.configs.schema import Config
from memeloom.engine.pool import try_partitions
from memeloom.engine.supervisor import Guard, Lost
from memeloom.engine.worker import resident_mb
from memeloom.templates.sketch import Sketch, sketch_image

P = TypeVar("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture in the blob store that is to be sketched.

    meme_id: of the meme whose picture it is; "" for a template's own.
    template: id of the template that it is known to show, else "".
    """

    meme_id: str
    image: Image
    template: str = ""


Sketcher: TypeAlias = Callable[[Picture], Sketch | NotDone]


def sketch_all(config: Config, pictures: Iterator[Picture]) -> Generator[tuple[Picture, Sketch | NotDone], None, None]:
    """Yield each picture with its sketch, made by workers, or with the reason why there is none.

    Raises:
        ConfigError: a worker needs more memory than it may have.
        StoreError: the blob store refused or failed.
    """
    return worked(config, partial(open_sketcher, config), pictures)


def worked(
    config: Config, opened: Callable[[], Callable[[P], R]], work: Iterator[P]
) -> Generator[tuple[P, R | NotDone], None, None]:
    """Yield each piece of `work` with what workers, each `opened` once, make of it; who dies or hangs is replaced."""
    settings = config.templates
    # A picture is fetched within one deadline and worked on within the other: whoever takes more than both hangs.
    guard = Guard(config.store.timeout_seconds + settings.image_seconds, settings.worker_memory_mb)
    for piece, result in try_partitions(opened, work, config.engine, guard):
        yield piece, NotDone(result.reason) if isinstance(result, Lost) else result


def open_sketcher(config: Config) -> Sketcher:
    """Open the blob store; returns what sketches one picture.

    Raises:
        ConfigError: a worker may not even hold its libraries in memory.
        StoreError: the blob store cannot be opened.
    """
    blobs = open_blobs(config.store)
    if (held := resident_mb()) > config.templates.worker_memory_mb:
        raise ConfigError(
            f"templates.worker_memory_mb: {config.templates.worker_memory_mb} is too little; "
            f"a worker holds {held:.0f} MB before it looks at anything"
        )

    def sketch(picture: Picture) -> Sketch | NotDone:
        try:
            data = blobs.get(picture.image.key)
            return sketch_image(data, max_pixels=config.crawl.max_image_pixels)
        except Exception as error:  # noqa: BLE001 one picture in a million must not end the stage
            return not_done(error)

    return sketch


def not_done(error: Exception) -> NotDone:
    """What `error` says of a picture. If it says something of a store, it is raised."""
    match error:
        case BadImage(reason=reason):
            return NotDone(reason, again=False)
        case BlobMissing():
            return NotDone("image missing", again=False)
        case StoreCorrupt():
            return NotDone("image corrupt", again=False)
        case MemeloomError():
            raise error
        case MemoryError():
            return NotDone("out of memory")
    return NotDone(f"unexpected {type(error).__module__}.{type(error).__name__}")
