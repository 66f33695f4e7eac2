"""A counted model of the next character: several chains of contexts, mixed.

counts = Counts.fit(text)            # a minute for eight million characters
counts.log_probs(text)               # of other captions
state = counts.begin(templates)      # in decoding: a row for each caption
state = state.read(characters); counts.log_probs_of(state)
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memeloom.train.ngram.chains import CHAINS, count, restored_table, stored_chains
from memeloom.train.ngram.contexts import Context, Spelling, Stretches
from memeloom.train.ngram.mixture import fit_powers, gate, gate_size, mixed
from memeloom.train.ngram.state import ContextState
from memeloom.train.ngram.table import Floats, Table
from memeloom.train.ngram.text import Text

# Positions that are estimated at once.
_BLOCK: Final = 4096
# Held out to fit the mixing: at most this share of the captions, and about this many characters.
_FITTED_SHARE: Final = 0.05
_FITTED: Final = 150_000
_POWERS: Final = "powers"


class Counts:
    """The counts of captions, and the powers that mix the chains.

    table: the counts of at least two chains. powers: float32 (numbers of the gate, chains). spelling: of the alphabet.
    """

    def __init__(self, table: Table, powers: Floats, spelling: Spelling) -> None:
        self.table, self.powers, self.spelling = table, powers, spelling
        self._depths = table.contexts.depths
        expected = gate_size(self._depths), len(self._depths)
        if powers.dtype != np.float32 or powers.shape != expected or not np.isfinite(powers).all():
            raise ValueError(f"powers are {powers.dtype} {powers.shape}, expected finite float32 {expected}")

    @classmethod
    def fit(
        cls,
        text: Text,
        others: Text | None = None,
        *,
        chains: Sequence[Sequence[Context]] = tuple(CHAINS.values()),
        forget_singles: bool = False,
        importance: NDArray[np.float32] | None = None,
        seed: int = 1,
        done: Callable[[int], None] = lambda _: None,
    ) -> "Counts":
        """Count the captions of `text`, but for a few that the mixing is fitted on, with and without their template.

        others: further texts to count. importance: weight of each caption of `text`, (captions,); None is 1.
        forget_singles, done: see `count`.
        """
        order = np.random.default_rng(seed).permutation(len(text.templates))
        ends = np.cumsum(np.diff(text.starts)[order])
        apart = min(int(np.searchsorted(ends, _FITTED)) + 1, max(int(len(order) * _FITTED_SHARE), 1))
        rows = np.sort(order[apart:]) if apart < len(order) else np.arange(len(order))
        counted = text.captions(rows)
        importance = None if importance is None else importance[rows]
        if others is not None:
            counted = counted.followed_by(others)
        table = count(counted, chains=chains, forget_singles=forget_singles, importance=importance, done=done)
        del counted
        told = text.captions(order[:apart])
        untold = Text(told.characters, told.starts, np.zeros_like(told.templates), told.spelling)
        return cls(table, _fitted(table, [told, untold], seed), text.spelling)

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
        return stored_chains(self.table), {**self.table.columns, _POWERS: self.powers}

    @classmethod
    def restored(
        cls, chains: Sequence[Sequence[Mapping[str, Any]]], arrays: Mapping[str, Any], spelling: Spelling
    ) -> "Counts":
        """Return the counts that `stored` described.

        Raises:
            KeyError, TypeError, ValueError: a part is missing or wrong.
        """
        columns = {name: array for name, array in arrays.items() if name != _POWERS}
        return cls(restored_table(chains, columns, spelling.characters), arrays[_POWERS], spelling)


def _fitted(table: Table, texts: Sequence[Text], seed: int) -> Floats:
    """Return the powers for captions that were not counted."""
    depths = table.contexts.depths
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
