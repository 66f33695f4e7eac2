"""Captions being written: what they say so far, and the state of the recurrence behind it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memeloom.train.causal.contexts import Reading, context_rows
from memeloom.train.causal.letters import Letters


class CausalSheet:
    """See `train.contract.Sheet`. One compiled call a character, whatever the number of rows.

    step: (contexts (rows, 16), state (rows, layers, units)) to (log-probabilities (rows, characters), state); with
        pictures also what is seen of them.
    templates: what the network knows the template of each row by. starts: numbers of the characters that each begins
        with.
    seen: of the picture of each row, (rows, units), where pictures are looked at.
    """

    def __init__(
        self,
        step: Callable[..., Any],
        state_shape: tuple[int, int],
        letters: Letters,
        templates: NDArray[np.int64],
        starts: Sequence[NDArray[np.int64]],
        seen: NDArray[np.float32] | None = None,
    ) -> None:
        self._step, self._letters, self._seen = step, letters, seen
        self._reading = Reading.begin(templates)
        self._state = np.zeros((len(templates), *state_shape), np.float32)
        self._after: NDArray[np.float32] | None = None
        for at in range(max(map(len, starts))):
            there = np.array([at < len(start) for start in starts])
            self._read(np.array([start[at] if at < len(start) else 1 for start in starts]), there)

    def scores(self) -> NDArray[np.float32]:
        """As `Sheet`."""
        rows = len(self._state)
        # Padded to a power of two, so that the step is compiled a few times only.
        padded = np.minimum(np.arange(1 << (rows - 1).bit_length()), rows - 1)
        contexts = context_rows(self._reading, self._letters.bits, len(self._letters.alphabet))
        seen = [] if self._seen is None else [self._seen[padded]]
        found, after = self._step(contexts[padded], self._state[padded], *seen)
        self._after = np.asarray(after)[:rows]
        return np.asarray(found)[:rows]

    def append(self, tokens: NDArray[np.int64]) -> None:
        """As `Sheet`."""
        self._read(tokens + 1, np.ones(len(tokens), np.bool_))

    def keep(self, rows: NDArray[np.int64]) -> None:
        """As `Sheet`."""
        self._reading, self._state = self._reading.keep(rows), self._state[rows]
        self._after = None if self._after is None else self._after[rows]
        self._seen = None if self._seen is None else self._seen[rows]

    def _read(self, characters: NDArray[np.int64], there: NDArray[np.bool_]) -> None:
        """Read one character in the rows that are `there`."""
        if self._after is None:
            self.scores()
        after = self._after if self._after is not None else self._state
        read = self._reading.read(characters, self._letters.spaces, self._letters.separator)
        self._reading = self._reading.unless(there, read)
        self._state = np.where(there[:, np.newaxis, np.newaxis], after, self._state)
        self._after = None
