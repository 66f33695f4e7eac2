"""Asks about templates that are news: who of the strangers is made on them, who of the found ones is one of them.

A template is news as long as the sketch of its picture (or a mark, for one without a picture) is not in the catalog.
That is written when everybody has been asked: nobody is asked twice, and after a kill on the way all are asked again.
"""

from collections.abc import Collection, Iterable

from memeloom.catalog.documents import DocumentStore, StoredSketch, batched
from memeloom.catalog.records import Template
from memeloom.configs.schema import Config
from memeloom.templates.atlas import Atlas, picture_of
from memeloom.templates.founding import Explorer
from memeloom.templates.kept import mark
from memeloom.templates.ledger import Ledger
from memeloom.templates.load import Loader
from memeloom.templates.merging import merge
from memeloom.templates.worker import Picture

_BATCH = 500


class Settler:
    """Brings what an `Explorer` knows into step with the catalog, at the start of a run and at its end."""

    def __init__(self, config: Config, documents: DocumentStore, explorer: Explorer, stage: str) -> None:
        self._config = config
        self._documents = documents
        self._explorer = explorer
        self._atlas = explorer.atlas
        self._loader = Loader(config, documents, explorer, stage)
        # Pictures that cannot be sketched in this run.
        self._unread: set[str] = set()

    def open(self) -> None:
        """Load what is known and ask about the news. Raises StoreError."""
        self._loader.load()
        self._settle()

    def catch_up(self) -> None:
        """Learn what others did meanwhile and ask about the news. Raises StoreError."""
        self._loader.load_more()
        self._settle()

    def _settle(self) -> None:
        fresh = [template for template in self._atlas.templates.values() if self._is_news(template)]
        self._sketch_pictures(fresh)
        news = [template.id for template in fresh if self._can_be_asked(template)]
        self._ask_strangers(news)
        self._merge_twins(news)
        for chunk in batched(news, _BATCH):
            answers = [answer for template_id in chunk if (answer := self._answer(template_id))]
            self._documents.put_sketches(answers)

    def _is_news(self, template: Template) -> bool:
        if template.merged_into:
            return False
        image = picture_of(template)
        if image is None and not self._atlas.sketches(template.id):
            return False  # it cannot be recognised
        return self._loader.asked.get(template.id) != (image.key if image else "")

    def _can_be_asked(self, template: Template) -> bool:
        image = picture_of(template)
        return image is None or image.key not in self._unread

    def _sketch_pictures(self, fresh: Iterable[Template]) -> None:
        wanted = [(template.id, picture_of(template)) for template in fresh]
        pictures = [Picture("", image, name) for name, image in wanted if image and image.key not in self._unread]
        self._unread.update(picture.image.key for picture in pictures)
        for picture, kept in self._loader.sketched(pictures):
            self._unread.discard(picture.image.key)
            self._atlas.put(picture.template, "", kept)

    def _ask_strangers(self, news: Collection[str]) -> None:
        """Strangers learn the templates of `news` that they are made on."""
        strangers = self._explorer.strangers
        if not (news and len(strangers)):
            return
        asked = Atlas(self._config.templates.min_agreement)
        for template_id in news:
            asked.learn(self._atlas.templates[template_id])
            for meme_id, kept in self._atlas.sketches(template_id).items():
                asked.put(template_id, meme_id, kept)
        ledger = Ledger()
        for meme_id, kept in strangers:
            if seen := asked.recognise(kept):
                learned = self._explorer.teach(meme_id, seen.template, seen.placing.agreement, ledger)
                self._explorer.tally["learned"] += learned
            if len(ledger) >= _BATCH:
                ledger.write(self._documents)
        ledger.write(self._documents)

    def _merge_twins(self, news: Collection[str]) -> None:
        """Templates that were found become the one that they turn out to be: a known one, else the older."""
        # Any of them may be one that a site made known now; else only those that are news can be another's twin.
        all_too = any(self._atlas.templates[template_id].state == "known" for template_id in news)
        for template in self._atlas.found():
            if (all_too or template.id in news) and (twin := self._explorer.twin(template.id)):
                self._merge(*_by_weight(template, twin))

    def _merge(self, template: Template, into: Template) -> None:
        moved = merge(self._documents, template.id, into)
        self._atlas.learn(template.model_copy(update={"merged_into": into.id}))
        self._loader.take_over(moved)
        self._explorer.tally["merged"] += 1

    def _answer(self, template_id: str) -> StoredSketch | None:
        """What says in the catalog that everybody was asked about a template."""
        template = self._atlas.templates[template_id]
        if template.merged_into:
            return None
        image, own = picture_of(template), self._atlas.sketches(template_id).get("")
        self._loader.asked[template_id] = picture = image.key if image else ""
        return own.stored(template_id, "") if own else mark(template_id, picture)


def _by_weight(template: Template, twin: Template) -> tuple[Template, Template]:
    """Which of both is merged, and into which."""
    return (twin, template) if _weight(template) < _weight(twin) else (template, twin)


def _weight(template: Template) -> tuple[bool, str, str]:
    since = template.first_seen.isoformat() if template.first_seen else ""
    return template.state != "known", since, template.id
