"""What an import needs of the stores, which a dry run replaces."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from memeloom.catalog.documents import Upserted
from memeloom.catalog.records import Meme, Template


class ImportDocuments(Protocol):
    """The part of a `DocumentStore` that an import uses."""

    def templates(self) -> Iterator[Template]:
        """Yield all templates."""

    def upsert_templates(self, templates: Iterable[Template]) -> int:
        """Store templates."""

    def get(self, meme_id: str) -> Meme | None:
        """Return the meme with that id."""

    def purged(self, ids: Sequence[str]) -> set[str]:
        """Return those of `ids` that a purge removed."""

    def upsert(self, memes: Iterable[Meme]) -> Upserted:
        """Store memes."""

    def close(self) -> None:
        """Close connections and files."""


class ImportBlobs(Protocol):
    """The part of a `BlobStore` that an import uses."""

    def has(self, key: str) -> bool:
        """Return True if there is a blob with that key."""

    def put(self, data: bytes, key: str) -> object:
        """Store `data` durably."""

    def close(self) -> None:
        """Close connections."""
