"""Memes that may be shown next, in the memory of one worker."""

import random
from collections.abc import Collection, Iterable
from typing import Final

from memeloom.catalog.feed import FeedMeme

# A visitor names the memes seen before by the beginnings of their ids; 16 million beginnings rarely collide.
MARK: Final = 6


class Pool:
    """Some memes of the catalog, and those just written. Use it on the event loop only.

    most: number of memes; beyond, those that were shown and have been here longest leave.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._memes: dict[str, FeedMeme] = {}
        self._fresh: set[str] = set()

    def __len__(self) -> int:
        return len(self._memes)

    @property
    def fresh(self) -> int:
        """Return the number of memes that nobody has seen."""
        return len(self._fresh)

    def add(self, memes: Iterable[FeedMeme], *, fresh: Collection[str] = ()) -> int:
        """Add memes. fresh: ids of those that nobody has seen. Returns how many were not here."""
        before = len(self._memes)
        for meme in memes:
            if meme.id not in self._memes:
                self._memes[meme.id] = meme
                if meme.id in fresh:
                    self._fresh.add(meme.id)
        added = len(self._memes) - before
        surplus = len(self._memes) - self._most
        if surplus > 0:
            old = [each for each in self._memes if each not in self._fresh] or list(self._memes)
            self.discard(old[:surplus])
        return added

    def discard(self, ids: Iterable[str]) -> None:
        """Forget memes, such as removed ones."""
        for each in ids:
            self._memes.pop(each, None)
            self._fresh.discard(each)

    def shown(self, ids: Iterable[str]) -> None:
        """Note that visitors have seen these memes."""
        self._fresh.difference_update(ids)

    def candidates(self, template: str | None, seen: Collection[str], most: int) -> list[FeedMeme]:
        """Return up to `most` memes to choose from, drawn at random.

        Args:
            template: id of the template that they are to be on; None is any.
            seen: the first `MARK` characters of the ids that the visitor has seen.
            most: number of candidates.
        """
        left = [
            meme
            for meme in self._memes.values()
            if meme.id[:MARK] not in seen and (template is None or meme.template == template)
        ]
        return random.sample(left, most) if len(left) > most else left
