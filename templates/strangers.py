"""Memes on no template that anyone knows, remembered so that later ones can be compared with them.

Of memes that are copies of each other only one is compared; the others wait beside it for what it learns.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from memeloom.templates.kept import Kept
from memeloom.templates.lookup import SketchIndex
from memeloom.templates.placing import Placing


@dataclass(frozen=True, slots=True)
class Near:
    """A stranger that shows what another picture shows, and how it stands in that."""

    meme_id: str
    kept: Kept
    placing: Placing


class Strangers:
    """At most `most` memes and their sketches.

    min_agreement: as `SketchIndex` has it.
    """

    def __init__(self, min_agreement: float, most: int) -> None:
        self._index = SketchIndex(min_agreement)
        self._most = most
        self._kept: dict[str, Kept] = {}
        self._copies: dict[str, list[str]] = {}
        self._copy_of: dict[str, str] = {}
        # Those that nobody was like so far: they are forgotten first. Oldest first, like `_kept`.
        self._singles: dict[str, None] = {}

    def __len__(self) -> int:
        """How many memes there are, copies included."""
        return len(self._kept) + len(self._copy_of)

    def __contains__(self, meme_id: str) -> bool:
        """Whether the meme is one of them."""
        return meme_id in self._kept or meme_id in self._copy_of

    def __iter__(self) -> Iterator[tuple[str, Kept]]:
        """Those that are no copies, the oldest first."""
        return iter(list(self._kept.items()))

    def add(self, meme_id: str, kept: Kept) -> bool:
        """Remember a meme. False if its picture is too plain to be compared."""
        if not self._index.add(meme_id, kept.sketch):
            return False
        self._kept[meme_id] = kept
        self._singles[meme_id] = None
        return True

    def add_copy(self, meme_id: str, original: str) -> None:
        """Remember a meme that is a copy of `original`, which is there and no copy itself."""
        self._copies.setdefault(original, []).append(meme_id)
        self._copy_of[meme_id] = original
        self._singles.pop(original, None)

    def find(self, kept: Kept, most: int) -> list[Near]:
        """The strangers whose picture `kept` shows, the likeliest first."""
        return [Near(match.key, self._kept[match.key], match.placing) for match in self._index.find(kept.sketch, most)]

    def keep_longer(self, meme_id: str) -> None:
        """Somebody is like that meme: it is worth waiting for a third."""
        self._singles.pop(meme_id, None)

    def take(self, meme_id: str) -> list[str]:
        """Remove a meme, if it is there, and those that are copies of it. Returns their ids."""
        if original := self._copy_of.pop(meme_id, None):
            self._copies[original].remove(meme_id)
            return [meme_id]
        if self._kept.pop(meme_id, None) is None:
            return []
        self._index.remove(meme_id)
        self._singles.pop(meme_id, None)
        copies = self._copies.pop(meme_id, [])
        for copy in copies:
            del self._copy_of[copy]
        return [meme_id, *copies]

    def forget(self) -> list[str]:
        """Remove what is too many: the oldest of those that nobody was like, then the oldest. Returns their ids."""
        gone: list[str] = []
        while len(self) > self._most:
            gone += self.take(next(iter(self._singles), None) or next(iter(self._kept)))
        return gone
