"""A counted model of the next character: several chains of contexts, mixed.

counts = Counts.fit(text)            # a minute for eight million characters
counts.log_probs(text)               # of other captions
state = counts.begin(templates)      # in decoding: a row for each caption
state = state.read(characters); counts.log_probs_of(state)
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memeloom.train.ngram.contexts import LONGEST, MOST_WORDS, Context, Contexts, Spelling, Stretches
from memeloom.train.ngram.counting import count_chain
from memeloom.train.ngram.mixture import fit_powers, gate, gate_size, mixed
from memeloom.train.ngram.state import ContextState
from memeloom.train.ngram.table import Floats, Table
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
# Positions that are estimated at once.
_BLOCK: Final = 4096
# Held out to fit the mixing: at most this share of the captions, and about this many characters.
_FITTED_SHARE: Final = 0.05
_FITTED: Final = 150_000
_POWERS: Final = "powers"


class Counts:
    """The counts of captions, and the powers that mix the chains.

    chains: at least two. table: their counts. powers: float32 (numbers of the gate, chains). spelling: of the alphabet.
    """

    def __init__(self, chains: Sequence[Sequence[Context]], table: Table, powers: Floats, spelling: Spelling) -> None:
        self.chains, self.table, self.powers, self.spelling = chains, table, powers, spelling
        self._depths = [len(chain) for chain in chains]
        expected = gate_size(self._depths), len(chains)
        if powers.dtype != np.float32 or powers.shape != expected or not np.isfinite(powers).all():
            raise ValueError(f"powers are {powers.dtype} {powers.shape}, expected finite float32 {expected}")

    @classmethod
    def fit(
        cls,
        text: Text,
        *,
        chains: Sequence[Sequence[Context]] = tuple(CHAINS.values()),
        forget_singles: bool = False,
        seed: int = 1,
        done: Callable[[int], None] = lambda _: None,
    ) -> "Counts":
        """Count the captions of `text`, but for a few that the mixing is fitted on, with and without their template.

        forget_singles: True forgets long contexts that occur once. done: called with the number of characters counted
        by each chain.
        """
        order = np.random.default_rng(seed).permutation(len(text.templates))
        ends = np.cumsum(np.diff(text.starts)[order])
        apart = min(int(np.searchsorted(ends, _FITTED)) + 1, max(int(len(order) * _FITTED_SHARE), 1))
        counted = text.captions(np.sort(order[apart:])) if apart < len(order) else text
        levels = []
        for chain in chains:
            levels += count_chain(counted, chain, kept_singles=_KEPT_SINGLES if forget_singles else None)
            done(len(counted))
        table = Table.of(Contexts(chains), text.spelling.characters, levels)
        del counted, levels
        told = text.captions(order[:apart])
        untold = Text(told.characters, told.starts, np.zeros_like(told.templates), told.spelling)
        powers = _fitted(table, [told, untold], [len(chain) for chain in chains], seed)
        return cls(chains, table, powers, text.spelling)

    def log_probs(self, text: Text) -> Floats:
        """Return the log-probabilities of every character at each position of `text`, (positions, characters)."""
        found = np.empty((len(text), self.spelling.characters), np.float32)
        for rows, block in text.blocks(_BLOCK):
            found[text.starts[rows[0]] : text.starts[rows[-1] + 1]] = self.log_probs_of(block.stretches)
        return found

    def begin(self, templates: NDArray[np.integer[Any]]) -> ContextState:
        """Return the decoding state of empty captions. templates: numbers, as in `Text`, (rows,)."""
        return ContextState.begin(templates, self.spelling)

    def log_probs_of(self, stretches: Stretches) -> Floats:
        """Return the log-probabilities of every character at each position, (positions, characters)."""
        estimates = self.table.estimate(stretches)
        return mixed(estimates, self.powers, gate(estimates, self._depths))

    def stored(self) -> tuple[list[list[dict[str, Any]]], dict[str, NDArray[Any]]]:
        """Return the chains as JSON values, and arrays by name."""
        chains = [[context._asdict() for context in chain] for chain in self.chains]
        return chains, {**self.table.columns, _POWERS: self.powers}

    @classmethod
    def restored(
        cls, chains: Sequence[Sequence[Mapping[str, Any]]], arrays: Mapping[str, Any], spelling: Spelling
    ) -> "Counts":
        """Return the counts that `stored` described.

        Raises:
            KeyError, TypeError, ValueError: a part is missing or wrong.
        """
        contexts = [[Context(**context) for context in chain] for chain in chains]
        _check_chains(contexts)
        columns = {name: array for name, array in arrays.items() if name != _POWERS}
        return cls(contexts, Table(Contexts(contexts), spelling.characters, columns), arrays[_POWERS], spelling)


def _fitted(table: Table, texts: Sequence[Text], depths: Sequence[int], seed: int) -> Floats:
    """Return the powers for captions that were not counted."""
    logs, numbers, symbols = [], [], []
    for text in texts:
        for _, block in text.blocks(_BLOCK):
            estimates = table.estimate(block.stretches)
            logs.append(np.log(estimates.probabilities))
            numbers.append(gate(estimates, depths))
            symbols.append(block.characters.astype(np.int64) - 1)
    return fit_powers(
        np.concatenate(logs, axis=1), np.concatenate(numbers), np.concatenate(symbols), gate_size(depths), seed
    )


def _check_chains(chains: Sequence[Sequence[Context]]) -> None:
    """Raise ValueError unless there are two chains or more, each of contexts that exist, the empty one first."""
    for context in (context for chain in chains for context in chain):
        if not (0 <= context.characters <= LONGEST and 0 <= context.suffix <= LONGEST):
            raise ValueError("its contexts are too long")
        if not 0 <= context.words <= MOST_WORDS:
            raise ValueError("its contexts have too many words")
    if len(chains) <= 1 or any(not chain or chain[0] != Context() for chain in chains):
        raise ValueError("its chains do not begin with the empty context")
