"""The chains of contexts that are counted, and their table as arrays of a model folder."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memeloom.train.ngram.contexts import LONGEST, MOST_WORDS, Context, Contexts
from memeloom.train.ngram.counting import count_chain
from memeloom.train.ngram.table import Table
from memeloom.train.ngram.text import Text

# The contexts of each chain, general to specific.
CHAINS: Final[Mapping[str, tuple[Context, ...]]] = MappingProxyType({
    "text": tuple(Context(characters=count) for count in (0, 1, 2, 3, 4, 5, 6, 8, 11)),
    "template, text": (
        *(Context(characters=count) for count in (0, 1, 2)),
        *(Context(characters=count, template=True) for count in (2, 3, 4, 5, 6, 8, 11)),
    ),
    "words": (
        Context(), *(Context(suffix=count) for count in (1, 2, 3, 4)), *(Context(words=count) for count in (1, 2, 3)),
    ),
    "template, words": (
        Context(), *(Context(suffix=count) for count in (1, 2, 3, 4)), Context(words=1),
        *(Context(words=count, template=True) for count in (1, 2)),
    ),
})  # fmt: skip
# Contexts of each chain whose values are kept even if they occur once.
_KEPT_SINGLES: Final = 4


def count(
    text: Text,
    *,
    chains: Sequence[Sequence[Context]] = tuple(CHAINS.values()),
    forget_singles: bool = False,
    importance: NDArray[np.float32] | None = None,
    done: Callable[[int], None] = lambda _: None,
) -> Table:
    """Count what follows the contexts of `chains` in `text`.

    forget_singles: True forgets long contexts that occur once. importance: weight of each caption, or of
    the first ones; all others have 1. done: called with the number of characters counted by each chain.
    """
    if importance is not None:
        importance = np.pad(importance, (0, len(text.templates) - len(importance)), constant_values=1)
    levels = []
    for chain in chains:
        kept_singles = _KEPT_SINGLES if forget_singles else None
        levels += count_chain(text, chain, kept_singles=kept_singles, importance=importance)
        done(len(text))
    return Table.of(Contexts(chains), text.spelling.characters, levels)


def stored_chains(table: Table) -> list[list[dict[str, Any]]]:
    """Return the chains of a table as JSON values."""
    return [[context._asdict() for context in chain] for chain in table.contexts.chains]


def restored_table(
    chains: Sequence[Sequence[Mapping[str, Any]]], columns: Mapping[str, NDArray[Any]], characters: int
) -> Table:
    """Return the table of `stored_chains` and of `Table.columns`.

    Raises:
        KeyError, TypeError, ValueError: a part is missing or wrong.
    """
    contexts = [[Context(**context) for context in chain] for chain in chains]
    for context in (context for chain in contexts for context in chain):
        if not (0 <= context.characters <= LONGEST and 0 <= context.suffix <= LONGEST):
            raise ValueError("its contexts are too long")
        if not 0 <= context.words <= MOST_WORDS:
            raise ValueError("its contexts have too many words")
    if len(contexts) <= 1 or any(not chain or chain[0] != Context() for chain in contexts):
        raise ValueError("its chains do not begin with the empty context")
    return Table(Contexts(contexts), characters, columns)
