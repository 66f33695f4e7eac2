"""Every picture that memes are recognised by: those of known templates, and exemplars of those found among memes."""

from collections.abc import Iterator
from dataclasses import dataclass

from memeloom.catalog.records import Image, Template
from memeloom.templates.kept import Kept
from memeloom.templates.lookup import SketchIndex
from memeloom.templates.placing import Placing
from memeloom.templates.whole import are_whole

_BETWEEN = "\0"


@dataclass(frozen=True, slots=True)
class Seen:
    """A template that a picture shows, which of its sketches shows it, and where that stands."""

    template: Template
    by: Kept
    placing: Placing


class Atlas:
    """Templates, and their sketches by (template, meme): the picture of one without words has no meme.

    Where a picture shows both a known template and one that was found, the known one is seen.
    Rejected ones are recognised like others: what shows them is not to be found again.

    min_agreement: as `SketchIndex` has it.
    """

    def __init__(self, min_agreement: float) -> None:
        self._known = SketchIndex(min_agreement)
        self._others = SketchIndex(min_agreement)
        self._sketches: dict[str, dict[str, Kept]] = {}
        self.templates: dict[str, Template] = {}

    def __len__(self) -> int:
        """How many templates can be recognised."""
        return len(self._sketches)

    def learn(self, template: Template) -> None:
        """Take in a template, or what is new about it. One that was merged into another loses its sketches."""
        self.templates[template.id] = template
        if template.merged_into:
            self.forget(template.id)
        # Named by a person or by a site meanwhile: its picture counts as a known one's now.
        elif own := self._sketches.get(template.id, {}).get(""):
            self.put(template.id, "", own)

    def put(self, template_id: str, meme_id: str, kept: Kept) -> bool:
        """Recognise a template by one more sketch. False if it is too plain."""
        known = not meme_id and self.templates[template_id].state == "known"
        self._drop(template_id, meme_id)
        if not (self._known if known else self._others).add(_BETWEEN.join((template_id, meme_id)), kept.sketch):
            return False
        self._sketches.setdefault(template_id, {})[meme_id] = kept
        return True

    def sketches(self, template_id: str) -> dict[str, Kept]:
        """What a template is recognised by, under the ids of memes."""
        return self._sketches.get(template_id, {})

    def forget(self, template_id: str) -> None:
        """Recognise a template no longer."""
        for meme_id in list(self.sketches(template_id)):
            self._drop(template_id, meme_id)

    def recognise(self, kept: Kept, but: str = "") -> Seen | None:
        """The template that a picture shows; None if it shows none. but: id of a template that does not count.

        Exemplars have words of their own, which may be like others' words: they must be shown whole.
        """
        for index in (self._known, self._others):
            # The sketches of the one that does not count may stand before another's.
            for match in index.find(kept.sketch, len(self.sketches(but)) + 2):
                template_id, _, meme_id = match.key.partition(_BETWEEN)
                by = self._sketches[template_id][meme_id]
                if template_id != but and (not meme_id or are_whole(kept.sketch, by.sketch, match.placing)):
                    return Seen(self.templates[template_id], by, match.placing)
        return None

    def found(self) -> Iterator[Template]:
        """The templates that were found among memes and are neither merged, nor rejected, nor known by now."""
        return (each for each in list(self.templates.values()) if each.state == "found" and not each.merged_into)

    def target(self, template_id: str) -> str:
        """The id that a template's memes carry: its own, or of the one that it was merged into at last."""
        passed: set[str] = set()
        while template_id not in passed and (template := self.templates.get(template_id)) and template.merged_into:
            passed.add(template_id)
            template_id = template.merged_into
        return template_id

    def _drop(self, template_id: str, meme_id: str) -> None:
        if self._sketches.get(template_id, {}).pop(meme_id, None) is None:
            return
        for index in (self._known, self._others):
            index.remove(_BETWEEN.join((template_id, meme_id)))
        if not self._sketches[template_id]:
            del self._sketches[template_id]


def picture_of(template: Template) -> Image | None:
    """The picture without words: a site's, else one made from memes."""
    return template.image or (template.clean.image if template.clean else None)
