"""What the trainer, the decoder, the evaluation and the export ask of a kind of model.

A kind is a folder of this room whose module `model` has a `Kind` named `KIND`; `open_kind` finds them all.

    dataset ─► Kind.prepare ─► TrainingTask ─► fit ─► Captioner ─► write, evaluate, export
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
_MODULES: Final[Mapping[KindName, str]] = MappingProxyType({
    "causal": "memeloom.train.causal.model",
    "convnet": "memeloom.train.convnet.model",
    "show-and-tell": "memeloom.train.show_and_tell.model",
    "gpt2": "memeloom.train.gpt2.model",
})  # fmt: skip
# What a token that ends the whole caption closes.
ALL_BOXES = 1 << 20


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a caption is written for.

    template: may be one that the model never learned. start: text that the caption begins with; separators close boxes.
    picture: RGB, uint8 (height, width, 3), for models that use pictures.
    """

    template: DatasetTemplate
    start: str = ""
    picture: NDArray[np.uint8] | None = None


class DecodingState(Protocol):
    """A batch of captions that are decoded side by side, token by token: one per row."""

    def log_probs(self) -> NDArray[np.float32]:
        """Return the log-probability of every token as each row's next one, (rows, tokens)."""
        ...

    def append(self, tokens: NDArray[np.int64]) -> None:
        """Append a token to every row, (rows,). Complete rows get any token; theirs are ignored."""
        ...

    def select(self, rows: NDArray[np.int64]) -> None:
        """Continue with these rows in this order; a row may occur several times (beam search) or not at all."""
        ...


@dataclass(frozen=True, slots=True)
class CaptionScores:
    """The likelihood of captions, in the order in which they were given; all arrays are (captions,).

    log_likelihood: natural, of the whole caption with every separator and its end, float64.
    tokens: number of the model's tokens. right: how many of them were its first choice.
    characters: length of the caption with separators, for bits per character, which compare all models.
    """

    log_likelihood: NDArray[np.float64]
    tokens: NDArray[np.int64]
    right: NDArray[np.int64]
    characters: NDArray[np.int64]


class Captioner(Protocol):
    """A model that writes captions and scores the likelihood of others.

    unit: one of its tokens in a word, such as ``character``.
    alphabet: meaning of the numbers in the captions that it scores, whatever its own tokens are.
    templates: those it learned, most captions first. separator: ends a text box.
    uses_pictures: True if it looks at the pictures of prompts.
    boxes_closed: number of boxes that each token closes, (tokens,).
    networks: Keras models by name; `settings` (plain numbers and words) and `files` complete them.
    files: written beside the networks, by file name: an array if that ends in ``.npy``, else JSON.
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
        """Return `start` in the letters that the model knows: in lower case if it knows no others."""
        ...

    def start_decoding(self, prompts: Sequence[Prompt]) -> DecodingState:
        """Return a decoding state with a row per prompt, each with its start text read."""
        ...

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens that follow a start text, with separators."""
        ...

    def score(self, captions: Captions, first: int, last: int) -> CaptionScores:
        """Score the captions `first` up to `last`, exclusive; any number of them fits into memory.

        Their characters are numbers of `alphabet`. Their templates are rows of `templates`; rows beyond it are
        templates that the model never learned.
        """
        ...


# Inputs and labels, or inputs, labels and weights of the labels.
Batch: TypeAlias = tuple[Any, Any] | tuple[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class TrainingTask:
    """A new model, and how it is fitted to a dataset.

    training_model: the Keras model that is fitted. It shares the weights of the captioner's networks and may have more
        around them (such as a layer that makes examples on the device); only the networks are saved.
    validation_model: the same for validation, where it holds other captions; else the training model.
    batch: the batch of a step, NumPy arrays of constant shapes, a function of the seed and the step alone.
    validation_batch: the same for validation; batches 0 … `validation_batches` - 1.
    unit, units_per_step: what progress counts, and how many of it a step has.
    from_logits: True if the models give logits, else probabilities. Labels are integers in any case.
    make_optimizer: takes a learning rate or a schedule.
    jit_compile: True if the step is worth compiling with XLA on this device.
    table: a large embedding table of which a batch needs few rows, or None. Its rows are the first input; the training
        model takes their vectors in place of them, the validation model the rows.
    """

    captioner: Captioner
    training_model: Any
    validation_model: Any
    batch: Callable[[int], Batch]
    validation_batch: Callable[[int], Batch]
    validation_batches: int
    unit: str
    units_per_step: int
    from_logits: bool
    make_optimizer: Callable[[Any], Any]
    jit_compile: bool
    table: "EmbeddingTable | None" = None


class EmbeddingTable(Protocol):
    """A Keras layer from rows int32 (…) to their vectors side by side, learned by Adagrad with one sum per row.

    vectors, squares: its variables, float32 (rows, width) and (rows,). width: of a vector.
    rate: its learning rate in units of the optimizer's. epsilon: is added to the sums of squares.
    null_row: the row whose vector stays zero.
    """

    vectors: Any
    squares: Any
    width: int
    rate: float
    epsilon: float
    null_row: int

    def __call__(self, rows: Any) -> Any:
        """Return the vectors."""
        ...


class Kind(Protocol):
    """A kind of model."""

    def hyperparameters(self, settings: Train) -> Training:
        """Return the section of this kind in the settings."""
        ...

    def prepare(self, settings: Train, dataset: Dataset, progress: Progress) -> TrainingTask:
        """Build a new model and its training on `dataset`. Raises MemeloomError."""
        ...

    def load(
        self,
        networks: Mapping[str, Any],
        settings: Mapping[str, Any],
        files: Mapping[str, Any],
        templates: tuple[DatasetTemplate, ...],
    ) -> Captioner:
        """Restore the model of a folder. Raises KeyError, TypeError or ValueError if a part is missing or wrong."""
        ...


def open_kind(name: KindName) -> Kind:
    """Import and return the kind called `name`. Raises KeyError."""
    kind: Kind = import_module(_MODULES[name]).KIND
    return kind
