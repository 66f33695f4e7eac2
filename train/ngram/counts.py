"""What captions counted say of the next character: several chains of contexts, mixed.

counts = Counts.fit(text, characters)            # two minutes for 170,000 captions
counts.log_probs(text)                           # of captions that were not counted
counts.log_probs(text, leave_one_out=True)       # of captions that were, each as if it was not
state = counts.begin(templates)                  # in decoding: a row for each caption
state = state.read(characters); counts.log_probs_of(state)
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memeloom.train.ngram.chain import Chain, Estimates
from memeloom.train.ngram.contexts import Context, Spelling
from memeloom.train.ngram.levels import Floats
from memeloom.train.ngram.mixture import Gate, fit_powers, mixed
from memeloom.train.ngram.state import ContextState
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
# Positions that are estimated at once.
_BLOCK: Final = 4096
# Characters of training captions, each without its own counts, that the mixing is fitted on.
_FITTED: Final = 120_000


class Counts:
    """The counts of captions, and the powers that mix the chains.

    chains: at least two. powers: float32 (numbers of the gate, chains). spelling: of the alphabet.
    """

    def __init__(self, chains: Sequence[Chain], powers: Floats, spelling: Spelling) -> None:
        self.chains, self.powers, self.spelling = tuple(chains), powers, spelling
        self._gate = Gate([len(chain.contexts) for chain in chains])
        if powers.shape != (self._gate.count, len(chains)):
            raise ValueError("its powers do not fit its chains")

    @classmethod
    def fit(
        cls,
        text: Text,
        *,
        contexts: Sequence[Sequence[Context]] = tuple(CHAINS.values()),
        singles: int | None = None,
        seed: int = 1,
        done: Callable[[int], None] = lambda _: None,
    ) -> "Counts":
        """Count the captions of `text`, and fit the mixing to some of them, each without its own counts.

        singles: see `Chain.count`. done: called with the number of characters counted after each chain.
        """
        chains = []
        for of_chain in contexts:
            chains.append(Chain.count(text, of_chain, text.spelling.characters, singles=singles))
            done(len(text))
        gate = Gate([len(chain.contexts) for chain in chains])
        rng = np.random.default_rng(seed)
        captions = rng.permutation(len(text.templates))
        most = int(np.searchsorted(np.cumsum(np.diff(text.starts)[captions]), _FITTED)) + 1
        logs, numbers, symbols = [], [], []
        for _, block in text.captions(captions[:most]).blocks(_BLOCK):
            found = [chain.estimate_left_out(block) for chain in chains]
            logs.append(np.log(np.stack([each.probabilities for each in found])))
            numbers.append(gate.of(found))
            symbols.append(block.characters.astype(np.int64) - 1)
        powers = fit_powers(
            np.concatenate(logs, axis=1), np.concatenate(numbers), np.concatenate(symbols), gate.count, seed
        )
        return cls(chains, powers, text.spelling)

    def log_probs(self, text: Text, *, leave_one_out: bool = False) -> Floats:
        """Return the log-probabilities of every character at each position of `text`, (positions, characters).

        leave_one_out: True for captions that were counted: each is estimated as if it was not.
        """
        found = np.empty((len(text), self.spelling.characters), np.float32)
        for rows, block in text.blocks(_BLOCK):
            estimates = [
                chain.estimate_left_out(block) if leave_one_out else chain.estimate(block.stretches)
                for chain in self.chains
            ]
            found[text.starts[rows[0]] : text.starts[rows[-1] + 1]] = self._mixed(estimates)
        return found

    def begin(self, templates: NDArray[np.integer[Any]]) -> ContextState:
        """Return the decoding state of empty captions. templates: numbers, as in `Text`, (rows,)."""
        return ContextState.begin(templates, self.spelling)

    def log_probs_of(self, state: ContextState) -> Floats:
        """Return the log-probabilities of every character as each row's next one, (rows, characters)."""
        return self._mixed([chain.estimate(state) for chain in self.chains])

    def _mixed(self, estimates: Sequence[Estimates]) -> Floats:
        return mixed(estimates, self.powers, self._gate.of(estimates))
