"""A dry run of an import: the catalog is read, nothing is written."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from memeloom.catalog.blobs import blob_key
from memeloom.catalog.documents import DocumentStore, Upserted
from memeloom.catalog.errors import StoreMissing, StoreOutdated
from memeloom.catalog.records import Meme, Template
from memeloom.catalog.stores import open_documents
from memeloom.configs.schema import Store

_SHOWN: Final = 5
_MOST_CHARACTERS: Final = 200


class DryDocuments:
    """What an import needs of a document store: it reads the catalog, if there is one, and stores nothing.

    A catalog of an older version is not read either: only commands that write to it upgrade it.
    """

    def __init__(self, store: Store) -> None:
        self._documents: DocumentStore | None = None
        self.result = "nothing was written"
        try:
            self._documents = open_documents(store, read_only=True)
        except StoreMissing:
            pass
        except StoreOutdated as error:
            self.result += f"; the catalog was not read ({error})"
        self._first: list[Meme] = []

    def templates(self) -> Iterator[Template]:
        """Yield the templates of the catalog."""
        return self._documents.templates() if self._documents else iter(())

    def upsert_templates(self, templates: Iterable[Template]) -> int:
        """Return how many templates would be written."""
        return len(list(templates))

    def get(self, meme_id: str) -> Meme | None:
        """Return the meme of the catalog with that id."""
        return self._documents.get(meme_id) if self._documents else None

    def purged(self, ids: Sequence[str]) -> set[str]:
        """Return those of `ids` that a purge removed."""
        return self._documents.purged(ids) if self._documents else set()

    def upsert(self, memes: Iterable[Meme]) -> Upserted:
        """Keep the first memes, to show them. What would become of the others is not counted."""
        batch = list(memes)
        self._first += batch[: _SHOWN - len(self._first)]
        return Upserted()

    def close(self) -> None:
        """Close the catalog."""
        if self._documents:
            self._documents.close()

    def told(self) -> str:
        """Return the first memes, one a line, as they would be stored."""
        return "".join(f"\n  {_told(meme)}" for meme in self._first)


class DryBlobs:
    """A blob store that stores nothing."""

    def has(self, key: str) -> bool:  # noqa: ARG002 the signature is that of a store
        """Return True: a picture that the catalog has is not stored again."""
        return True

    def put(self, data: bytes, key: str | None = None) -> str:
        """Return the key; nothing is stored."""
        return key or blob_key(data)

    def close(self) -> None:
        """Do nothing."""


def _told(meme: Meme) -> str:
    facts = meme.model_dump(mode="json", exclude_none=True, exclude={"id", "source", "image", "template", "boxes"})
    facts = {name: value for name, value in facts.items() if name not in ("schema_version", "fetched_at")}
    image = f"{meme.image.format} {meme.image.width} × {meme.image.height}" if meme.image else None
    template = meme.template.name if meme.template else None
    first = {"picture": image, "caption": " | ".join(meme.boxes) or None, "template": template}
    parts = [f"{name} = {value}" for name, value in (*first.items(), *facts.items()) if value is not None]
    text = f"{meme.id}: {', '.join(' '.join(part.split()) for part in parts)}"
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
