"""The feed of one worker: pages chosen from the memes that are ready, reactions, and what keeps memes ready."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final, Protocol

import numpy as np

from memeloom.catalog.documents import DocumentStore
from memeloom.catalog.errors import StoreError
from memeloom.catalog.feed import NONE, FeedMeme, Sums, Value
from memeloom.configs.errors import MemeloomError
from memeloom.serve.feed.supply import Supply

log = logging.getLogger(__name__)

# Memes read from the catalog when the server starts, and every few seconds after that: so workers get those of others.
_AT_START, _AGAIN = 1000, 100
# Memes from which a page is chosen.
_CANDIDATES: Final = 200
# Memes that are chosen beyond a page, in place of those removed meanwhile.
_SPARE: Final = 3
# A page with fewer left behind it asks for more.
_AHEAD: Final = 10
_ID_DIGITS: Final = 20
_CLOSE_SECONDS: Final = 5.0
# Reactions that other workers wrote while they were read are read again.
_OVERLAP: Final = timedelta(seconds=5)


class Chooser(Protocol):
    """Learns which memes people like."""

    def choose(self, candidates: Sequence[FeedMeme], most: int, rng: np.random.Generator) -> list[int]:
        """Return the places of the chosen candidates, best first."""
        ...

    def learn(self, rows: Iterable[tuple[FeedMeme, Sums]]) -> None:
        """Learn from the sums of memes; later sums of a meme replace earlier ones."""
        ...


class FeedUnavailable(StoreError):
    """The catalog cannot be written, or has not been opened yet."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A meme as a person sees it. mine: this person's reaction."""

    meme: FeedMeme
    sums: Sums
    mine: Value = NONE


class Feed:
    """Pages and reactions. Create and use it on the event loop; what blocks is run by the supply's threads.

    Args:
        documents: opens the catalog for writing; tried again until it succeeds.
        supply: writes memes.
        chooser: chooses the memes of a page.
        blocked: returns why nobody may see a caption on a template, or None.
        refresh: seconds after which reactions and memes of other workers are read.
    """

    def __init__(
        self,
        documents: Callable[[], DocumentStore],
        supply: Supply,
        chooser: Chooser,
        *,
        blocked: Callable[[str, Sequence[str]], str | None],
        refresh: float,
    ) -> None:
        self._open, self._supply, self._chooser, self._run = documents, supply, chooser, supply.run
        self._pool, self._blocked, self._refresh = supply.pool, blocked, refresh
        self._documents: DocumentStore | None = None
        self._counts: Counter[str] = Counter()
        self._rng = np.random.default_rng()
        self._learned: datetime | None = None
        self._read_at = 0.0

    @property
    def documents(self) -> DocumentStore:
        """Return the catalog. Raises FeedUnavailable."""
        if self._documents is None:
            raise FeedUnavailable("the feed is not ready: its catalog cannot be written")
        return self._documents

    async def page(
        self, template: str | None, seen: Collection[str], most: int, person: str | None
    ) -> tuple[list[Shown], int]:
        """Choose memes that a visitor has not seen.

        Args:
            template: id of the template that they are on; None is any.
            seen: beginnings of ids, as of `Pool.candidates`.
            most: number of memes; there are fewer if no more are ready, and then more are asked for.
            person: whose reactions to add.

        Returns:
            The memes, and how many others are ready for this visitor, at least.
        """
        candidates = self._pool.candidates(template, seen, _CANDIDATES)
        if len(candidates) < most + _AHEAD:
            self._supply.ask(template, most + _AHEAD - len(candidates))

        def choose() -> list[Shown]:
            places = self._chooser.choose(candidates, most + _SPARE, self._rng) if candidates else []
            return self._looked_up([candidates[place].id for place in places], person)

        found = await self._run(choose)
        # A meme may have been removed since.
        self._pool.discard(each.meme.id for each in found if each.meme.state != "shown")
        page = [each for each in found if each.meme.state == "shown"][:most]
        ids = [each.meme.id for each in page]
        self._pool.shown(ids)
        self._supply.wanted.set()
        self._counts.update(ids)
        return page, len(candidates) - len(page)

    async def memes(self, ids: Sequence[str], person: str | None) -> list[Shown]:
        """Return the memes with these ids, whatever their state, in this order; unknown ones are left out."""
        return await self._run(self._looked_up, ids, person)

    async def react(self, meme: str, person: str, value: Value) -> Sums | None:
        """Set a person's reaction; returns the sums, or None if the meme is unknown or removed."""
        return await self._run(self.documents.react, meme, person, value, datetime.now(UTC))

    async def report(self, meme: str, person: str, reason: str) -> int | None:
        """Note a report; returns how many persons have reported the meme, or None if it is unknown."""
        return await self._run(self.documents.report_meme, meme, person, reason, datetime.now(UTC))

    async def forget(self, person: str) -> int:
        """Delete what a person did; returns how many reactions there were."""
        return await self._run(self.documents.forget_person, person)

    async def open(self) -> None:
        """Open the catalog and read it; if that fails, `supply` tries again."""
        try:
            self._documents = await self._run(self._open)
            await self._read(_AT_START)
        except Exception as error:  # noqa: BLE001
            _log_failure(error)

    async def supply(self) -> None:
        """Keep memes ready until cancelled."""
        pause = 1.0
        while True:
            try:
                if self._documents is None:
                    self._documents = await self._run(self._open)
                if time.monotonic() >= self._read_at + self._refresh:
                    await self._read(_AGAIN)
                await self._count()
                pause = 1.0
                if await self._supply.write(self._documents):
                    continue
            except Exception as error:  # noqa: BLE001 -- it goes on when the store is back
                pause = min(2 * pause, 60.0)
                _log_failure(error)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._supply.wanted.wait()

    async def close(self) -> None:
        """Write what was counted, and close the catalog, unless a call that does not end still uses it."""
        if self._documents is not None:
            with suppress(Exception):  # these numbers may be lost
                await self._count()
            if await self._run.settled(_CLOSE_SECONDS):
                self._documents.close()

    def _looked_up(self, ids: Sequence[str], person: str | None) -> list[Shown]:
        documents = self.documents
        memes, sums = documents.feed_memes(ids), documents.sums(ids)
        for each in memes.values():
            if entry := self._blocked(each.template, each.boxes):
                memes[each.id] = each.model_copy(update={"state": "removed", "reason": f"blocked: {entry}"})
        mine = documents.reactions(person, ids) if person else {}
        found = [memes[each] for each in dict.fromkeys(ids) if each in memes]
        return [Shown(meme, sums.get(meme.id, Sums()), mine.get(meme.id, NONE)) for meme in found]

    async def _read(self, most: int) -> None:
        """Learn from new reactions, and read some memes of the catalog, from a random place in the order of ids."""
        documents, since, now = self.documents, self._learned, datetime.now(UTC)
        after = bytes(self._rng.integers(0, 256, _ID_DIGITS // 2, np.uint8)).hex()

        def read() -> tuple[list[FeedMeme], dict[str, Sums]]:
            self._chooser.learn(documents.reacted(since and since - _OVERLAP))
            memes = list(islice(documents.scan_feed("shown", after=after), most))
            memes += islice(documents.scan_feed("shown"), most - len(memes))
            sums = documents.sums([meme.id for meme in memes])
            # Memes without a reaction, too: that nobody reacted says something.
            self._chooser.learn((meme, sums[meme.id]) for meme in memes)
            return memes, sums

        memes, sums = await self._run(read)
        self._learned, self._read_at = now, time.monotonic()
        self._pool.add(memes, fresh={each for each, counted in sums.items() if not counted.shown})

    async def _count(self) -> None:
        if self._counts:
            counts, self._counts = self._counts, Counter()
            await self._run(self.documents.add_shown, counts)


def _log_failure(error: Exception) -> None:
    expected = isinstance(error, MemeloomError)
    log.warning("the feed is not supplied: %s", error, exc_info=None if expected else error)
