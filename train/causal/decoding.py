"""Decoding with `causal`, on Keras or NumPy: both give a step from what was read and counted to log-probabilities."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memeloom.configs.schema_models import KindName
from memeloom.dataset.manifest import DatasetTemplate
from memeloom.train.causal.estimates import encoded_name
from memeloom.train.causal.recall import DEPTHS, Recall, joined
from memeloom.train.characters import Alphabet
from memeloom.train.contract import Prompt, boxes_closed
from memeloom.train.corpus import UNKNOWN_TEMPLATE, template_numbers
from memeloom.train.ngram.contexts import Spelling
from memeloom.train.ngram.state import ContextState
from memeloom.train.ngram.table import Table
from memeloom.train.pictures.templates import TemplatePictures

ENCODER = "encoder"
VOCABULARY, PICTURES = "vocabulary.json", "pictures.npy"
CHAINS, COUNTS = "chains.json", "counts.npz"
# What a network reads at a character, before what was counted.
READS: Final = ("character", "template", "box")
# Boxes from this one on are alike to a network.
MOST_BOXES: Final = 16
# Reads int32 (rows, 3 + chains), logarithms of the estimates (rows, chains, characters), state (rows, layers, units)
# and, with pictures, the projected picture of each row (rows, units) to log-probabilities (rows, characters) and the
# new state.
Step: TypeAlias = Callable[
    [NDArray[np.int32], NDArray[np.float32], NDArray[np.float32], NDArray[np.float32] | None],
    tuple[NDArray[np.float32], NDArray[np.float32]],
]


def depths_of(table: Table) -> list[int]:
    """Return how many depths the estimate of each chain has: those of the counts, and what is recalled."""
    return [*table.contexts.depths, DEPTHS]


class PictureSight(NamedTuple):
    """What a model that uses pictures sees. project: vectors (n, size) to (n, units)."""

    pictures: TemplatePictures[Any]
    project: Callable[[NDArray[np.float32]], NDArray[np.float32]]


class CausalWriter:
    """Writes a caption character by character.

    state_shape: layers, units. table: the counts. learned: rows of the templates with training captions; all others
        are `UNKNOWN_TEMPLATE`. sight: for a model that uses pictures.
    """

    kind: ClassVar[KindName] = "causal"
    unit: ClassVar[str] = "character"
    compiled: ClassVar[bool] = False

    def __init__(
        self,
        step: Step,
        state_shape: tuple[int, int],
        table: Table,
        alphabet: Alphabet,
        separator: str,
        templates: tuple[DatasetTemplate, ...],
        learned: Sequence[int],
        sight: PictureSight | None,
    ) -> None:
        self.table, self.alphabet, self.templates = table, alphabet, templates
        self.separator, self.uses_pictures = separator, sight is not None
        self.spelling = Spelling.of(alphabet, separator)
        self.boxes_closed = boxes_closed(alphabet, separator)
        self._state_shape, self._step, self._sight = state_shape, step, sight
        numbers = template_numbers(np.arange(len(templates)), learned).tolist()
        self._numbers = {template.id: number for template, number in zip(templates, numbers, strict=True)}

    def normalize(self, start: str) -> str:
        return self.alphabet.normalize(start)

    def start_decoding(self, prompts: Sequence[Prompt]) -> "CausalState":
        templates = np.array([self._numbers.get(prompt.template.id, UNKNOWN_TEMPLATE) for prompt in prompts])
        seen = None if self._sight is None else self._sight.project(self._sight.pictures.of_prompts(prompts))
        starts = [self.alphabet.encode(prompt.start).astype(np.int64) for prompt in prompts]
        state = np.zeros((len(prompts), *self._state_shape), np.float32)
        contexts = ContextState.begin(templates, self.spelling)
        recall = Recall.begin([encoded_name(prompt.template.name, self.alphabet) for prompt in prompts], contexts)
        return CausalState(self._step, self.table, contexts, recall, starts, state, seen)

    def text(self, tokens: Sequence[int]) -> str:
        return self.alphabet.decode([token + 1 for token in tokens])


class CausalState:
    """See `memeloom.train.contract.DecodingState`: one call of the step per character for all rows.

    contexts, recall: of empty captions. starts: numbers of each row's start text. state: of the network,
    (rows, layers, units). seen: projected picture of each row, (rows, units), for a model that uses pictures.
    """

    def __init__(
        self,
        step: Step,
        table: Table,
        contexts: ContextState,
        recall: Recall,
        starts: Sequence[NDArray[np.int64]],
        state: NDArray[np.float32],
        seen: NDArray[np.float32] | None,
    ) -> None:
        self._step, self._table, self._state, self._seen = step, table, state, seen
        self._contexts, self._recall = contexts, recall
        self._boxes = np.zeros(len(state), np.int64)
        self._after: NDArray[np.float32] | None = None
        for at in range(max(map(len, starts))):
            there = np.array([at < len(start) for start in starts])
            self._read(np.array([start[at] if at < len(start) else 1 for start in starts]), there)

    def log_probs(self) -> NDArray[np.float32]:
        estimates = joined(self._table.estimate(self._contexts), self._recall.estimate(self._contexts))
        # The number of the start of a caption is 0, like that of no character.
        reads = (self._contexts.last[0], self._contexts.template, self._boxes, *estimates.depth)
        found, self._after = self._step(
            np.stack(reads, axis=1).astype(np.int32),
            np.log(estimates.probabilities).swapaxes(0, 1),
            self._state,
            self._seen,
        )
        return found

    def append(self, tokens: NDArray[np.int64]) -> None:
        self._read(tokens + 1)

    def select(self, rows: NDArray[np.int64]) -> None:
        self._contexts, self._state, self._boxes = self._contexts.select(rows), self._state[rows], self._boxes[rows]
        self._recall.select(rows)
        self._after = None if self._after is None else self._after[rows]
        self._seen = None if self._seen is None else self._seen[rows]

    def _read(self, characters: NDArray[np.int64], there: NDArray[np.bool_] | None = None) -> None:
        """Read a character per row; only in the rows that are `there`, if given."""
        if self._after is None:
            self.log_probs()
        after = self._after if self._after is not None else self._state
        self._recall.read(characters, self._contexts, np.ones(len(characters), np.bool_) if there is None else there)
        read = self._contexts.read(characters)
        boxes = np.minimum(self._boxes + (characters == self._contexts.spelling.separator), MOST_BOXES - 1)
        if there is None:
            self._contexts, self._state, self._boxes = read, after, boxes
        else:
            self._contexts = self._contexts.replaced(there, read)
            self._state = np.where(there[:, np.newaxis, np.newaxis], after, self._state)
            self._boxes = np.where(there, boxes, self._boxes)
        self._after = None
