"""A catalog as an object: its records and its pictures, for notebooks and scripts."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from io import BytesIO
from typing import TYPE_CHECKING

from memeloom.catalog.blobs import BlobStore
from memeloom.catalog.documents import DocumentStore, Where
from memeloom.catalog.records import Meme, Template
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.load import load_config
from memeloom.configs.schema import Store

if TYPE_CHECKING:
    from PIL.Image import Image


class Catalog(AbstractContextManager["Catalog"]):
    """A document store (`documents`) and a blob store (`blobs`). Close it, or use it in a ``with`` statement."""

    def __init__(self, store: Store) -> None:
        self.documents: DocumentStore = open_documents(store)
        self.blobs: BlobStore = open_blobs(store)

    def memes(self, *, source: str | None = None, template: str | None = None) -> Iterator[Meme]:
        """Yield memes in order of id, in bounded memory. source: such as ``imgflip``. template: an id."""
        return self.documents.scan(Where(source=source, template=template))

    def templates(self) -> Iterator[Template]:
        """Yield templates in order of id."""
        return self.documents.templates()

    def picture(self, record: Meme | Template) -> "Image | None":
        """Return the picture of a meme or template, a Pillow image, or None if the catalog has none.

        Raises:
            BlobMissing, StoreCorrupt: the stored picture is missing or damaged.
        """
        from PIL import Image

        stored = record.image if isinstance(record, Meme) else record.picture
        return None if stored is None else Image.open(BytesIO(self.blobs.get(stored.key)))

    def close(self) -> None:
        """Close both stores."""
        self.blobs.close()
        self.documents.close()

    def __iter__(self) -> Iterator[Meme]:
        return self.memes()

    def __exit__(self, *_: object) -> None:
        self.close()


def open_catalog(documents: str | None = None, blobs: str | None = None) -> Catalog:
    """Open a catalog.

    Args:
        documents: ``sqlite:///FILE`` or ``mongodb://HOST/DATABASE``; default: the setting `store.documents`.
        blobs: a folder or ``s3://BUCKET/PREFIX``; default: the setting `store.blobs`.

    Raises:
        ConfigError: an unknown scheme or malformed URL.
        StoreError: a store cannot be opened.
    """
    chosen = {"store.documents": documents, "store.blobs": blobs}
    return Catalog(load_config(options={key: value for key, value in chosen.items() if value is not None}).store)
