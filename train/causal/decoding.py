"""Decoding with `causal`, on Keras or NumPy: both give a step from contexts and state to log-probabilities."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memeloom.configs.schema import KindName
from memeloom.dataset.manifest import DatasetTemplate
from memeloom.train.causal.contexts import ContextSpec, ContextState, context_rows
from memeloom.train.contract import Prompt, boxes_closed
from memeloom.train.corpus import UNKNOWN_TEMPLATE, template_numbers
from memeloom.train.pictures.templates import TemplatePictures

ENCODER = "encoder"
VOCABULARY, PICTURES = "vocabulary.json", "pictures.npy"
# Contexts int32 (rows, 16), state (rows, layers, units) and, with pictures, the projected picture of each row
# (rows, units) to log-probabilities (rows, characters) and the new state.
Step: TypeAlias = Callable[
    [NDArray[np.int32], NDArray[np.float32], NDArray[np.float32] | None],
    tuple[NDArray[np.float32], NDArray[np.float32]],
]


class PictureSight(NamedTuple):
    """What a model that uses pictures sees. project: vectors (n, size) to (n, units)."""

    pictures: TemplatePictures[Any]
    project: Callable[[NDArray[np.float32]], NDArray[np.float32]]


class CausalWriter:
    """Writes a caption character by character.

    state_shape: layers, units. learned: rows of the templates with training captions; the network sees all others as
        `UNKNOWN_TEMPLATE`. sight: for a model that uses pictures.
    template_numbers: the network's number of each template, (1 + templates,); the first is for unknown templates.
    """

    kind: ClassVar[KindName] = "causal"
    unit: ClassVar[str] = "character"
    compiled: ClassVar[bool] = False

    def __init__(
        self,
        step: Step,
        state_shape: tuple[int, int],
        spec: ContextSpec,
        templates: tuple[DatasetTemplate, ...],
        learned: Sequence[int],
        sight: PictureSight | None,
    ) -> None:
        self.spec, self.alphabet, self.templates = spec, spec.alphabet, templates
        self.separator, self.uses_pictures = spec.end, sight is not None
        self.boxes_closed = boxes_closed(spec.alphabet, spec.end)
        self.state_shape = state_shape
        self._step, self._sight = step, sight
        self._rows = {template.id: row for row, template in enumerate(templates, start=1)}
        rows = np.arange(len(templates))
        self.template_numbers = np.concatenate([[UNKNOWN_TEMPLATE], template_numbers(rows, learned)])

    def normalize(self, start: str) -> str:
        return self.alphabet.normalize(start)

    def start_decoding(self, prompts: Sequence[Prompt]) -> "CausalState":
        templates = self.template_numbers[[self._rows.get(prompt.template.id, 0) for prompt in prompts]]
        seen = None if self._sight is None else self._sight.project(self._sight.pictures.of_prompts(prompts))
        starts = [self.alphabet.encode(prompt.start).astype(np.int64) for prompt in prompts]
        return CausalState(self._step, self.state_shape, self.spec, templates, starts, seen)

    def seen_templates(self) -> NDArray[np.float32] | None:
        """Return the projected pictures of an unknown and of all known templates, (1 + templates, units), or None."""
        if self._sight is None:
            return None
        return self._sight.project(self._sight.pictures.of_templates(np.arange(-1, len(self._rows))))

    def text(self, tokens: Sequence[int]) -> str:
        return self.alphabet.decode([token + 1 for token in tokens])


class CausalState:
    """See `memeloom.train.contract.DecodingState`: one call of the step per character for all rows.

    templates: the network's number of each row's template. starts: numbers of each row's start text.
    seen: projected picture of each row, (rows, units), for a model that uses pictures.
    """

    def __init__(
        self,
        step: Step,
        state_shape: tuple[int, int],
        spec: ContextSpec,
        templates: NDArray[np.int64],
        starts: Sequence[NDArray[np.int64]],
        seen: NDArray[np.float32] | None,
    ) -> None:
        self._step, self._spec, self._seen = step, spec, seen
        self._contexts = ContextState.begin(templates)
        self._state = np.zeros((len(templates), *state_shape), np.float32)
        self._after: NDArray[np.float32] | None = None
        for at in range(max(map(len, starts))):
            there = np.array([at < len(start) for start in starts])
            self._read(np.array([start[at] if at < len(start) else 1 for start in starts]), there)

    def log_probs(self) -> NDArray[np.float32]:
        contexts = context_rows(self._contexts, self._spec.bits, len(self._spec.alphabet))
        found, self._after = self._step(contexts, self._state, self._seen)
        return found

    def append(self, tokens: NDArray[np.int64]) -> None:
        self._read(tokens + 1)

    def select(self, rows: NDArray[np.int64]) -> None:
        self._contexts, self._state = self._contexts.select(rows), self._state[rows]
        self._after = None if self._after is None else self._after[rows]
        self._seen = None if self._seen is None else self._seen[rows]

    def _read(self, characters: NDArray[np.int64], there: NDArray[np.bool_] | None = None) -> None:
        """Read a character per row; only in the rows that are `there`, if given."""
        if self._after is None:
            self.log_probs()
        after = self._after if self._after is not None else self._state
        read = self._contexts.read(characters, self._spec.spaces, self._spec.separator)
        if there is None:
            self._contexts, self._state = read, after
        else:
            self._contexts = self._contexts.replaced(there, read)
            self._state = np.where(there[:, np.newaxis, np.newaxis], after, self._state)
        self._after = None
