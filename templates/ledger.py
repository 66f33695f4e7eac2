"""What a batch has brought about, written in an order in which no kill between two steps loses or doubles anything."""

from collections.abc import Iterable
from datetime import UTC, datetime

from memeloom.catalog.documents import DocumentStore, StoredSketch
from memeloom.catalog.records import Meme, Template, TemplateRef
from memeloom.templates.kept import Kept

Key = tuple[str, str]


class Ledger:
    """Facts that are not written yet.

    The exemplars of a template that was found come first: with them alone the next run can finish what was begun.
    Then the template, then who is made on it. Last the strangers: what leaves them has learned its template by then.
    """

    def __init__(self) -> None:
        self._sketches: dict[Key, StoredSketch] = {}
        self._templates: dict[str, Template] = {}
        self._memes: dict[str, Meme] = {}
        self._strangers: dict[Key, StoredSketch] = {}
        self._gone: set[Key] = set()

    def __len__(self) -> int:
        """How much there is to write."""
        return len(self._sketches) + len(self._templates) + len(self._memes) + len(self._strangers) + len(self._gone)

    def keep(self, sketch: StoredSketch) -> None:
        """Recognise a template by `sketch`."""
        self._sketches[sketch.key] = sketch

    def drop(self, keys: Iterable[Key]) -> None:
        """Recognise a template by these sketches no longer."""
        self._gone.update(keys)

    def state(self, template: Template) -> None:
        """There is such a template."""
        self._templates[template.id] = template

    def learn(self, meme_id: str, ref: TemplateRef) -> None:
        """A meme is made on a template. Only that is written: what others learn about it meanwhile stays."""
        source = meme_id.partition(":")[0]
        self._memes[meme_id] = Meme(id=meme_id, source=source, template=ref, fetched_at=datetime.now(UTC))

    def remember(self, meme_id: str, kept: Kept) -> None:
        """A meme is a stranger."""
        self._strangers["", meme_id] = kept.stored("", meme_id)
        self._gone.discard(("", meme_id))

    def forget(self, meme_ids: Iterable[str]) -> None:
        """Memes are strangers no longer."""
        for meme_id in meme_ids:
            self._strangers.pop(("", meme_id), None)
            self._gone.add(("", meme_id))

    def write(self, documents: DocumentStore) -> None:
        """Write all of it, durably, and be empty again. Raises StoreError."""
        if self._sketches:
            documents.put_sketches(self._sketches.values())
        if self._templates:
            documents.upsert_templates(self._templates.values())
        if self._memes:
            documents.upsert(self._memes.values())
        if self._strangers:
            documents.put_sketches(self._strangers.values())
        if self._gone:
            documents.drop_sketches(self._gone)
        for written in (self._sketches, self._templates, self._memes, self._strangers, self._gone):
            written.clear()


def matched(template: Template, agreement: float) -> TemplateRef:
    """How a meme that was recognised refers to `template`."""
    distance = round(100 * (1 - agreement))
    return template.ref().model_copy(update={"known": "match", "distance": distance})
