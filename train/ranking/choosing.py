"""Which of the captions written for a prompt are shown."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from memeloom.train.decoding.draft import WrittenCaption
from memeloom.train.decoding.found import DETERMINISTIC, SEARCHES, Choose, by_score
from memeloom.train.ranking.ranker import Ranker
from memeloom.train.ranking.words import folded_words

# A caption that shares more of its words than this with a better one is shown only if there are no others.
_ALIKE: Final = 0.6


def chooser(method: str, ranker: Ranker | None, *, several: bool) -> Choose | None:
    """Return how to choose among captions written by `method`; None if there is nothing to choose.

    A search has an order of its own. several: whether more captions are written than shown; without a ranker the
    likeliest are chosen.
    """
    if method == "sampled-beam":
        return by_score
    if not several or method in (*SEARCHES, *DETERMINISTIC):
        return None
    return by_score if ranker is None else partial(choose, ranker)


def choose(ranker: Ranker, captions: Sequence[WrittenCaption], most: int) -> list[WrittenCaption]:
    """Return the `most` best of `captions`, best first; near-equal ones only if there are no others."""
    if not captions or most < 1:
        return []
    words = [set(folded_words(caption.texts)) for caption in captions]
    order, chosen = ranker.order(captions), list[int]()
    for at in order:
        if len(chosen) < most and not any(_alike(words[at], words[other]) for other in chosen):
            chosen.append(at)
    others = [at for at in order if at not in chosen]
    return [captions[at] for at in (chosen + others)[:most]]


def _alike(one: set[str], other: set[str]) -> bool:
    return len(one & other) > _ALIKE * max(len(one | other), 1)
