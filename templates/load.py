"""Loads what the catalog knows of templates and strangers, and finishes what a run that died had begun."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from memeloom.catalog.documents import DocumentStore, StoredSketch, Where, batched
from memeloom.catalog.leased import NotDone
from memeloom.catalog.records import Template
from memeloom.configs.schema import Config
from memeloom.templates.atlas import picture_of
from memeloom.templates.discover import Founder
from memeloom.templates.founding import FOUND, Explorer
from memeloom.templates.kept import Kept, marked
from memeloom.templates.ledger import Ledger
from memeloom.templates.merging import finish_merge
from memeloom.templates.worker import Picture, sketch_all

_BATCH = 500


class Loader:
    """Fills an `Explorer` from the catalog.

    stage: whose work a stranger becomes again when its sketch cannot be read any more.
    asked: by template, the key of the picture that memes were asked about; "" for a template without a picture.
    """

    def __init__(self, config: Config, documents: DocumentStore, explorer: Explorer, stage: str) -> None:
        self._config = config
        self._documents = documents
        self._explorer = explorer
        self._stage = stage
        self.asked: dict[str, str] = {}

    def load(self) -> None:
        """Load all of it. Raises StoreError."""
        for template in self._documents.templates():
            self._explorer.atlas.learn(template)
        self._load_sketches(self._documents.sketches())
        strangers = sorted(self._read_strangers(), key=lambda each: each[1].since)
        self._add_strangers(strangers)

    def load_more(self) -> None:
        """Load what other runs, or a person, have written meanwhile. Raises StoreError."""
        atlas = self._explorer.atlas
        for template in self._documents.templates():
            known = atlas.templates.get(template.id)
            if template != known:
                atlas.learn(template)
                self._load_sketches(self._documents.sketches(template.id))
        # What other runs did not know either was not compared with ours, nor with each other's.
        ledger = Ledger()
        for meme_id, kept in self._read_strangers():
            if seen := atlas.recognise(kept):
                self._explorer.teach(meme_id, seen.template, seen.placing.agreement, ledger)
                ledger.forget([meme_id])
            else:
                self._explorer.compare(meme_id, kept, ledger)
            if len(ledger) >= _BATCH:
                ledger.write(self._documents)
        ledger.write(self._documents)

    def sketched(self, pictures: Iterable[Picture]) -> Iterator[tuple[Picture, Kept]]:
        """Yield pictures with their sketches, made by the workers; those that cannot be sketched are counted."""
        for picture, result in sketch_all(self._config, iter(pictures)):
            if isinstance(result, NotDone):
                self._explorer.tally[f"picture/{result.reason}"] += 1
            else:
                yield picture, Kept.of(picture.image, result)

    def take_over(self, moved: Iterable[StoredSketch]) -> None:
        """Recognise templates by exemplars that were others' before."""
        for each in moved:
            if kept := Kept.read(each):
                self._explorer.atlas.put(each.template, each.meme, kept)

    def _load_sketches(self, stored: Iterator[StoredSketch]) -> None:
        atlas = self._explorer.atlas
        merged: dict[str, None] = {}
        orphans: dict[str, dict[str, Kept]] = defaultdict(dict)
        unread: list[Picture] = []
        for each in stored:
            template, kept = atlas.templates.get(each.template), Kept.read(each)
            if template is None:
                orphans[each.template].update({each.meme: kept} if kept and each.meme else {})
            elif template.merged_into:
                merged[template.id] = None
            elif not each.meme:
                self._load_own(template, each, kept)
            elif kept is None:
                unread += self._picture_again(each)
            else:
                atlas.put(template.id, each.meme, kept)
        for template_id in merged:
            self.take_over(finish_merge(self._documents, template_id, atlas.templates[atlas.target(template_id)]))
        for template_id, exemplars in orphans.items():
            self._finish_founding(template_id, exemplars)
        for picture, kept in self.sketched(unread):
            atlas.put(picture.template, picture.meme_id, kept)
            self._documents.put_sketches([kept.stored(picture.template, picture.meme_id)])

    def _load_own(self, template: Template, stored: StoredSketch, kept: Kept | None) -> None:
        """A template's own picture, if it is the one that was sketched."""
        if (plain := marked(stored)) is not None:
            self.asked[template.id] = plain
        elif kept and kept.is_of(picture_of(template)):
            self.asked[template.id] = kept.picture
            self._explorer.atlas.put(template.id, "", kept)

    def _picture_again(self, stored: StoredSketch) -> list[Picture]:
        meme = self._documents.get(stored.meme)
        if meme is None or meme.image is None:
            self._documents.drop_sketches([stored.key])
            return []
        return [Picture(meme.id, meme.image, stored.template)]

    def _finish_founding(self, template_id: str, exemplars: dict[str, Kept]) -> None:
        """A run died after it had written a new template's exemplars, or some of them, and before the template."""
        ledger = Ledger()
        if template_id.startswith(FOUND) and len(exemplars) >= self._config.templates.min_members:
            founders = [Founder(meme_id, kept, 1.0) for meme_id, kept in exemplars.items()]
            self._explorer.found(founders, ledger, template_id)
        else:
            # They are strangers still, or are leased once more.
            ledger.drop(each.key for each in self._documents.sketches(template_id))
        ledger.write(self._documents)

    def _read_strangers(self) -> Iterator[tuple[str, Kept]]:
        """Those in the catalog that we do not know of, unless they have learned their template elsewhere."""
        for chunk in batched(self._documents.sketches(strangers=True), _BATCH):
            stored = {each.meme: each for each in chunk if each.meme not in self._explorer.strangers}
            settled = [meme.id for meme in self._documents.scan(Where(ids=tuple(stored), template_known=True))]
            kept = {meme_id: Kept.read(each) for meme_id, each in stored.items() if meme_id not in settled}
            unread = tuple(meme_id for meme_id, each in kept.items() if each is None)
            self._documents.drop_sketches(("", meme_id) for meme_id in (*settled, *unread))
            if unread:
                self._documents.enqueue(self._stage, Where(ids=unread), again=True)
            yield from ((meme_id, each) for meme_id, each in kept.items() if each)

    def _add_strangers(self, strangers: Iterable[tuple[str, Kept]]) -> None:
        """They were compared with each other before."""
        there = self._explorer.strangers
        copies = []
        for meme_id, kept in strangers:
            if kept.copy_of:
                copies.append((meme_id, kept))
            else:
                there.add(meme_id, kept)
        for meme_id, kept in copies:
            if kept.copy_of in there:
                there.add_copy(meme_id, kept.copy_of)
            else:
                there.add(meme_id, kept)
        if gone := there.forget():
            self._explorer.tally["forgotten"] += len(gone)
            self._documents.drop_sketches(("", meme_id) for meme_id in gone)
