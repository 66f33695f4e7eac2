"""The different captions of a prompt that are worth showing."""

from collections.abc import Iterable

from memeloom.train.decoding.draft import WrittenCaption


class FoundCaptions:
    """Up to `most` captions with different texts, neither empty nor repetitive.

    Those that the model did not finish are kept in case that no others take their place.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._finished: dict[tuple[str, ...], WrittenCaption] = {}
        self._unfinished: dict[tuple[str, ...], WrittenCaption] = {}

    @property
    def lacking(self) -> int:
        """Return the number of finished captions that are still to be found."""
        return max(self._most - len(self._finished), 0)

    def add(self, captions: Iterable[WrittenCaption]) -> None:
        """Add the usable ones of `captions`."""
        for caption in captions:
            if caption.usable:
                group = self._finished if caption.finished else self._unfinished
                group.setdefault(caption.texts, caption)

    def best(self, *, by_score: bool = False) -> list[WrittenCaption]:
        """Return the captions, finished ones first; `by_score` sorts each of the two groups."""
        groups = [list(group.values()) for group in (self._finished, self._unfinished)]
        if by_score:
            groups = [sorted(group, key=lambda caption: -caption.score) for group in groups]
        return [caption for group in groups for caption in group][: self._most]
