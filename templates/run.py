"""One run of the stage: memes' pictures out to the workers, their sketches back, what they tell into the catalog."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice

from memeloom.catalog.documents import DocumentStore, Where
from memeloom.catalog.leased import LeasedRun, grouped, reasons
from memeloom.catalog.records import Meme
from memeloom.configs.progress import Progress
from memeloom.configs.runs import Summary
from memeloom.configs.schema import Config
from memeloom.templates.founding import Explorer
from memeloom.templates.ledger import Ledger
from memeloom.templates.merging import point_members
from memeloom.templates.naming import Titles, unnamed
from memeloom.templates.recovery import recover_templates
from memeloom.templates.settle import Settler
from memeloom.templates.sketch import Sketch
from memeloom.templates.worker import Picture, sketch_all

STAGE = "templates"
_OUTCOMES = ("matched", "unknown", "found", "rejected", "failed", "settled", "retried", "lost")
# Titles that tell what a template may be called, and those that tell what is said anywhere.
_TITLES_OF_ONE, _TITLES_OF_ALL = 200, 2000


class Recognition:
    """What the stage does with memes: a `memeloom.catalog.leased.Job`."""

    def __init__(self, documents: DocumentStore, explorer: Explorer) -> None:
        self._documents = documents
        self._explorer = explorer

    def work_for(self, meme: Meme) -> Picture | None:
        """Its picture, unless its template is known by now."""
        return Picture(meme.id, meme.image) if meme.image and not meme.template else None

    def write(self, done: Sequence[tuple[Picture, Sketch]]) -> Mapping[str, str]:
        """Look at the pictures one after another, and write what that tells about all of them."""
        ledger = Ledger()
        outcomes = {
            picture.meme_id: self._explorer.look_at(picture.meme_id, picture.image, sketch, ledger)
            for picture, sketch in done
        }
        ledger.write(self._documents)
        return outcomes

    def set_aside(self, meme_id: str, reason: str) -> None:
        """The tally has it."""


class Run:
    """Everything that one run knows and has done."""

    def __init__(self, config: Config, documents: DocumentStore, progress: Progress) -> None:
        self._config = config
        self._documents = documents
        self._progress = progress
        self._recovered: Counter[str] = Counter()
        self._recovering = 0.0  # seconds
        self._explorer = Explorer(config.templates)
        self._settler = Settler(config, documents, self._explorer, STAGE)
        self._leased = LeasedRun(STAGE, Recognition(documents, self._explorer), documents, config.templates, progress)

    @property
    def outcomes(self) -> Mapping[str, int]:
        """What became of the memes so far, by name."""
        return self._leased.tally

    def work_off(self) -> int:
        """Look at all memes that are pending. Returns how many others hold. Raises StoreError."""
        self._settler.open()
        held = self._leased.work_off(lambda pictures: sketch_all(self._config, pictures))
        if self._leased.tally:
            self._settler.catch_up()
            self._name_found()
        self._recover()
        return held

    def summary(self, seconds: float, held: int = 0) -> Summary:
        """What was done. held: memes that another run holds.

        ``learned`` are memes that were unknown at first, in this run or before.
        """
        groups, explored = grouped(self._leased.tally), self._explorer.tally
        memes = sum(groups[name] for name in _OUTCOMES[:6])
        counts = {"templates": len(self._explorer.atlas), "memes": memes}
        counts |= {name: groups[name] for name in _OUTCOMES if groups[name] or name in ("matched", "unknown")}
        found = {"templates found": explored["found"], "templates merged": explored["merged"]}
        made = {"pictures recovered": self._recovered["pictures"], "text boxes learned": self._recovered["boxes"]}
        rest = {"learned later": explored["learned"], "strangers forgotten": explored["forgotten"], "held": held}
        more = {name: n for name, n in {**found, **made, **rest}.items() if n}
        return Summary(
            stage=STAGE,
            counts={**counts, **more},
            reasons={**reasons(self._leased.tally), **_of_templates(explored), **_of_templates(self._recovered)},
            seconds={"memes": seconds - self._recovering, "pictures": self._recovering, "total": seconds},
        )

    def _recover(self) -> None:
        """Templates that no site shows get their picture; who is made on what is asked once more by that."""
        started = time.monotonic()
        self._recovered = recover_templates(self._config, self._documents, self._progress)
        if self._recovered["pictures"]:
            self._settler.catch_up()
        self._recovering = time.monotonic() - started

    def _name_found(self) -> None:
        """Templates that got members and have no name yet get one, if the titles of their memes agree on it."""
        atlas = self._explorer.atlas
        grown = [atlas.templates[atlas.target(template_id)] for template_id in sorted(self._explorer.grown)]
        nameless = {template.id: template for template in grown if template.name == unnamed(template.id)}
        if not nameless:
            return
        everywhere = Titles(meme.title for meme in islice(self._documents.scan(), _TITLES_OF_ALL) if meme.title)
        for template in nameless.values():
            members = islice(self._documents.scan(Where(template=template.id)), _TITLES_OF_ONE)
            if name := everywhere.name([meme.title for meme in members if meme.title]):
                named = template.model_copy(update={"name": name})
                self._documents.upsert_templates([named])
                atlas.learn(named)
                point_members(self._documents, named.id, named)


def _of_templates(tally: Mapping[str, int]) -> dict[str, int]:
    """Why templates could not be looked at, or recovered."""
    return {f"template's {reason}": n for reason, n in reasons(tally).items()}
