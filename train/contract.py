"""What the trainer, the decoder, the evaluation and the export ask of a kind of model, and what it gets from them.

A kind is a folder of this room with one module `model` that has a `Kind` named `KIND`; `train/kinds.py` knows them all.

    dataset ─► Kind.task ─► TrainingTask ─► fit ─► Captioner ─► write, evaluate, export
                                model folder ─► Kind.load ─┘
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memeloom.configs.progress import Progress
from memeloom.configs.schema import Train, Training
from memeloom.dataset.manifest import DatasetTemplate
from memeloom.train.characters import Alphabet
from memeloom.train.corpus import Captions, Dataset

KindName: TypeAlias = Literal["convnet", "show-and-tell", "gpt2", "causal"]


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a caption is to be written for.

    template: need not be one that the model learned. start: the caption begins with it; separators close boxes.
    picture: RGB, uint8 (height, width, 3), for models that look at it; None where there is none.
    """

    template: DatasetTemplate
    start: str = ""
    picture: NDArray[np.uint8] | None = None


class DecodingState(Protocol):
    """Captions being written side by side, one a row, token by token."""

    def log_probs(self) -> NDArray[np.float32]:
        """The log-probability of every token as each row's next one, (rows, tokens)."""
        ...

    def append(self, tokens: NDArray[np.int64]) -> None:
        """Write a token to every row, (rows,). Rows that are complete get any; what they say no longer matters."""
        ...

    def select(self, rows: NDArray[np.int64]) -> None:
        """Go on with these rows in this order; a row may be named often (beam search), or not at all."""
        ...


@dataclass(frozen=True, slots=True)
class CaptionScores:
    """How likely a model finds captions, in the order they were given in; all arrays are (captions,).

    log_likelihood: natural, of the whole caption, every separator and the end counted, float64.
    tokens: how many the model needed for it. right: how many of them were its first choice.
    characters: how long the caption is, separators counted: for bits per character, which are the same for all models.
    """

    log_likelihood: NDArray[np.float64]
    tokens: NDArray[np.int64]
    right: NDArray[np.int64]
    characters: NDArray[np.int64]


class Captioner(Protocol):
    """A model that writes captions and says how likely others are.

    templates: those it learned, most captions first. separator: ends a text box.
    alphabet: what the numbers of the captions that it judges stand for, whatever its own tokens are.
    unit: what one of its tokens is, in a word, such as ``character``.
    looks: whether it looks at the pictures of prompts.
    closes: how many boxes each token closes, (tokens,); a token that ends the whole caption closes `ALL_BOXES`.
    networks: Keras models by name; together with `settings` and `files` all that is needed to load it.
    settings: plain numbers and words. files: what is written beside, by the file's name: an array if that ends in
        ``.npy``, else what JSON can say.
    network: the one whose `parameters` are told, and that a serving system wants.
    """

    kind: ClassVar[KindName]
    unit: ClassVar[str]
    alphabet: Alphabet
    templates: tuple[DatasetTemplate, ...]
    separator: str
    uses_pictures: bool
    boxes_closed: NDArray[np.int64]
    networks: Mapping[str, Any]
    settings: Mapping[str, Any]
    files: Mapping[str, Any]

    def normalize(self, start: str) -> str:
        """`start` in the letters that the model knows: lower case if it knows no others."""
        ...

    def start_decoding(self, prompts: Sequence[Prompt]) -> DecodingState:
        """A state whose rows are those of `prompts`, each with its start text read already."""
        ...

    def text(self, tokens: Sequence[int]) -> str:
        """What tokens say, behind a start text; separators included."""
        ...

    def score(self, captions: Captions, first: int, last: int) -> CaptionScores:
        """Of the captions `first` up to `last`, not included. Any number of them fits into memory.

        They are numbers of `alphabet`; their templates are rows of `templates`, and those from its length on are
        templates that it never learned.
        """
        ...


ALL_BOXES = 1 << 20

Batch: TypeAlias = tuple[Any, Any] | tuple[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class TrainingTask:
    """A model, and how it is fitted to a dataset.

    training_model: the Keras model that is fitted. It shares the weights of the captioner's networks, and may have more
        around them (such as what makes examples on the device); only the networks' weights are kept.
    checked: the same with the validation captions inside, for models that hold their captions; else the training_model.
    batch: what is learned from at a step, (inputs, labels) or (inputs, labels, weights of the labels), NumPy arrays of
        the same shapes each time. It is a function of the seed and the step alone.
    check: the same for the validation captions; batches 0 … `checks` - 1.
    unit, units: what is counted as progress, and how many a step has.
    logits: whether the training_model gives logits; else probabilities. Labels are integers in any case.
    optimizer: given a learning rate or a schedule of it.
    compiled: whether the step is worth compiling with XLA on this device.
    table: a large table of vectors of which a batch needs few, or None. Rows of it are the first of the inputs; the
        training_model takes their vectors in place of them, and `checked` the rows.
    """

    captioner: Captioner
    training_model: Any
    checked: Any
    batch: Callable[[int], Batch]
    check: Callable[[int], Batch]
    checks: int
    unit: str
    units: int
    logits: bool
    optimizer: Callable[[Any], Any]
    compiled: bool
    table: "Table | None" = None


class Table(Protocol):
    """A Keras layer, rows int32 (…) to their vectors side by side, learned by Adagrad with one sum of squares a row.

    vectors, squares: its variables, float32 (rows, width) and (rows,). width: of a vector.
    rate: what its learning rate is in units of the optimizer's. small: what is added to the sums of squares.
    nothing: the row whose vector is never learned.
    """

    vectors: Any
    squares: Any
    width: int
    rate: float
    small: float
    nothing: int

    def __call__(self, rows: Any) -> Any:
        """The vectors."""
        ...


class Kind(Protocol):
    """A kind of model."""

    def course(self, settings: Train) -> Training:
        """The section of its settings: what shapes it and how it is fitted."""
        ...

    def prepare(self, settings: Train, dataset: Dataset, progress: Progress) -> TrainingTask:
        """A new model and what it learns from `dataset`. progress: of what takes long. Raises MemeloomError."""
        ...

    def load(
        self,
        networks: Mapping[str, Any],
        settings: Mapping[str, Any],
        files: Mapping[str, Any],
        templates: tuple[DatasetTemplate, ...],
    ) -> Captioner:
        """The model of a folder. Raises KeyError, TypeError or ValueError if something is missing or off."""
        ...


_MODULES: Final[Mapping[KindName, str]] = MappingProxyType({
    "causal": "memeloom.train.causal.model",
    "convnet": "memeloom.train.convnet.model",
    "show-and-tell": "memeloom.train.show_and_tell.model",
    "gpt2": "memeloom.train.gpt2.model",
})  # fmt: skip


def open_kind(name: KindName) -> Kind:
    """The kind called `name`. Raises KeyError."""
    kind: Kind = import_module(_MODULES[name]).KIND
    return kind
