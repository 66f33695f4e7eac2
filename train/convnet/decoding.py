"""Decoding with the article's network, on Keras or ONNX Runtime."""

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memeloom.configs.schema_models import KindName
from memeloom.dataset.manifest import DatasetTemplate
from memeloom.train.characters import MAX_BOXES, PREFIX_WIDTH, Alphabet
from memeloom.train.contract import Prompt, boxes_closed
from memeloom.train.convnet.examples import compose

VOCABULARY = "vocabulary.json"
# Lowest probability whose logarithm is taken.
LEAST = 1e-12
# Characters, int32 (rows, sequence_length), to log-probabilities (rows, characters).
Following: TypeAlias = Callable[[NDArray[np.int32]], NDArray[np.float32]]


class ConvnetWriter:
    """Writes a caption character by character, with one call per character for all rows.

    sequence_length: length of the network's input in characters.
    """

    kind: ClassVar[KindName] = "convnet"
    unit: ClassVar[str] = "character"
    compiled: ClassVar[bool] = False
    uses_pictures = False

    def __init__(
        self,
        following: Following,
        sequence_length: int,
        alphabet: Alphabet,
        templates: tuple[DatasetTemplate, ...],
        separator: str,
    ) -> None:
        self.following, self.sequence_length = following, sequence_length
        self.alphabet, self.templates, self.separator = alphabet, templates, separator
        self.boxes_closed = boxes_closed(alphabet, separator)

    def normalize(self, start: str) -> str:
        return self.alphabet.normalize(start)

    def start_decoding(self, prompts: Sequence[Prompt]) -> "ConvnetState":
        return ConvnetState(self, prompts)

    def text(self, tokens: Sequence[int]) -> str:
        return self.alphabet.decode([token + 1 for token in tokens])


class ConvnetState:
    """See `memeloom.train.contract.DecodingState`; keeps the ends of the texts, which the network reads."""

    def __init__(self, model: "ConvnetWriter", prompts: Sequence[Prompt]) -> None:
        self._model = model
        self._separator = int(model.alphabet.encode(model.separator)[0])
        most = min(
            max(max(prompt.template.boxes, 1 + prompt.start.count(model.separator)) for prompt in prompts), MAX_BOXES
        )
        self._prefixes = model.alphabet.prefixes([prompt.template.id for prompt in prompts], most)
        self._prompt = np.arange(len(prompts))
        self._tails = np.zeros((len(prompts), model.sequence_length - PREFIX_WIDTH), np.uint16)
        self._seen = np.zeros(len(prompts), np.int64)
        self._box = np.array([prompt.start.count(model.separator) for prompt in prompts])
        for row, prompt in enumerate(prompts):
            text = model.alphabet.encode(prompt.start)[-self._tails.shape[1] :]
            self._tails[row, self._tails.shape[1] - len(text) :] = text
            self._seen[row] = len(text)

    def log_probs(self) -> NDArray[np.float32]:
        box = np.minimum(self._box, self._prefixes.shape[1] - 1)
        return self._model.following(compose(self._prefixes[self._prompt, box], self._tails, self._seen))

    def append(self, tokens: NDArray[np.int64]) -> None:
        self._tails[:, :-1] = self._tails[:, 1:]
        self._tails[:, -1] = tokens + 1
        self._seen = np.minimum(self._seen + 1, self._tails.shape[1])
        self._box = self._box + (tokens + 1 == self._separator)

    def select(self, rows: NDArray[np.int64]) -> None:
        self._prompt, self._tails = self._prompt[rows], self._tails[rows]
        self._seen, self._box = self._seen[rows], self._box[rows]
