"""New templates from what strangers have in common, and the templates that turn out to be one."""

from collections import Counter
from collections.abc import Container, Sequence
from datetime import UTC, datetime

from memeloom.catalog.records import Image, Template
from memeloom.configs.schema import Templates
from memeloom.templates.atlas import Atlas
from memeloom.templates.discover import Founder, compare
from memeloom.templates.kept import Kept
from memeloom.templates.ledger import Ledger, matched
from memeloom.templates.naming import unnamed
from memeloom.templates.sketch import Sketch
from memeloom.templates.strangers import Strangers
from memeloom.templates.whole import are_whole

# In none of a few captions is the same part of the picture hidden.
MOST_EXEMPLARS = 8
_DIGITS = 12
_SOURCE = "found"
FOUND = "found:"  # ids of such templates begin so


class Explorer:
    """Looks at memes one after another: who is made on what, who is a stranger, who founds a template.

    The tally knows ``found``, ``merged`` (templates), ``learned`` (strangers that learned their template later)
    and ``forgotten`` (strangers, when there were too many).
    grown: ids of templates found among memes that got members.
    """

    def __init__(self, settings: Templates) -> None:
        self._settings = settings
        self.atlas = Atlas(settings.min_agreement)
        self.strangers = Strangers(settings.min_agreement, settings.max_strangers)
        self.tally: Counter[str] = Counter()
        self.grown: set[str] = set()

    def look_at(self, meme_id: str, image: Image, sketch: Sketch, ledger: Ledger) -> str:
        """Find out what a meme is made on; what came of it: ``matched``, ``rejected``, ``unknown`` or ``found``."""
        kept = Kept.of(image, sketch)
        if seen := self.atlas.recognise(kept):
            self.teach(meme_id, seen.template, seen.placing.agreement, ledger)
            return "rejected" if seen.template.state == "rejected" else "matched"
        return self.compare(meme_id, kept, ledger)

    def compare(self, meme_id: str, kept: Kept, ledger: Ledger) -> str:
        """Compare a meme on no known template with the strangers: ``unknown``, or ``found`` if it founds one."""
        compared = compare(meme_id, kept, self.strangers, self._settings.min_members, self._settings.min_agreement)
        if compared.kept is None:
            return "unknown"
        if not compared.founders:
            ledger.remember(meme_id, compared.kept)
            self._forget_some(ledger)
            return "unknown"
        self.found(compared.founders, ledger)
        return "found"

    def found(self, founders: Sequence[Founder], ledger: Ledger, template_id: str | None = None) -> None:
        """Make a template of what `founders` show; they and their copies are its first members.

        template_id: if that is decided already.
        """
        template = _template(template_id or _id_of(founders, self.atlas.templates))
        self.atlas.learn(template)
        ledger.state(template)
        for founder in founders[:MOST_EXEMPLARS]:
            self.atlas.put(template.id, founder.meme_id, founder.kept)
            ledger.keep(founder.kept.stored(template.id, founder.meme_id))
        learned = sum(self.teach(founder.meme_id, template, founder.agreement, ledger) for founder in founders)
        self.tally["found"] += 1
        # The newcomer was a stranger for this moment only.
        self.tally["learned"] += max(0, learned - 1)

    def teach(self, meme_id: str, template: Template, agreement: float, ledger: Ledger) -> int:
        """A meme, and those that are copies of it, are made on `template`. Returns how many of them were strangers."""
        gone = self.strangers.take(meme_id)
        if template.state == "found":
            self.grown.add(template.id)
        for each in dict.fromkeys((meme_id, *gone)):
            ledger.learn(each, matched(template, agreement))
        ledger.forget(gone)
        return len(gone)

    def twin(self, template_id: str) -> Template | None:
        """Another template that most of a template's sketches show, whole; None if there is none."""
        sketches = self.atlas.sketches(template_id)
        votes: Counter[str] = Counter()
        for kept in sketches.values():
            seen = self.atlas.recognise(kept, but=template_id)
            if seen and seen.template.usable and are_whole(kept.sketch, seen.by.sketch, seen.placing):
                votes[seen.template.id] += 1
        best = max(votes, key=lambda other: (votes[other], other), default=None)
        return self.atlas.templates[best] if best and 2 * votes[best] > len(sketches) else None

    def _forget_some(self, ledger: Ledger) -> None:
        gone = self.strangers.forget()
        ledger.forget(gone)
        self.tally["forgotten"] += len(gone)


def _template(template_id: str) -> Template:
    return Template(
        id=template_id,
        slug=template_id.replace(":", "-"),
        name=unnamed(template_id),
        state="found",
        first_seen=datetime.now(UTC),
        source=_SOURCE,
    )


def _id_of(founders: Sequence[Founder], taken: Container[str]) -> str:
    """An id that the same founders would get again, in whatever order they came."""
    by_age = sorted(founders, key=lambda founder: (founder.kept.since, founder.kept.picture))
    pictures = [founder.kept.picture for founder in by_age]
    ids = (f"{FOUND}{name}" for name in [*(picture[:_DIGITS] for picture in pictures), *pictures])
    return next(template_id for template_id in ids if template_id not in taken)
