"""Training, decoding and scoring of `gpt2`."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from memeloom.configs.progress import Progress
from memeloom.configs.schema import Train
from memeloom.dataset.manifest import DatasetTemplate
from memeloom.train.backend import ACCELERATED, keras, padded_rows
from memeloom.train.characters import Alphabet
from memeloom.train.contract import CaptionScores, KindName, ModelParts, Prompt, TrainingTask
from memeloom.train.corpus import Captions, Dataset, shuffled
from memeloom.train.gpt2.network import (
    TINY,
    TINY_TOKENS,
    empty_cache,
    new_network,
    packed_model,
    preset_network,
    reading,
    scoring,
)
from memeloom.train.gpt2.packing import Rows, cut_pieces
from memeloom.train.gpt2.tokens import Tokens, learn_tokens

_NETWORK = "gpt2"
_CHARACTERS, _VOCABULARY, _MERGES = "vocabulary.json", "tokens.json", "merges.json"
# One in this many training captions has no template name, so that the model can write for unknown templates.
_NAMELESS = 20
# 32 MB of logits.
_MAX_LOGITS = 1 << 23
_BATCH = 4096
_WEIGHT_DECAY = 0.01


class Gpt2Captioner:
    """Writes a caption token by token, with one call per token for all rows.

    network: KerasHub's `GPT2CausalLM`. window: context length in tokens. read: see `train.gpt2.network.reading`.
    """

    kind: ClassVar[KindName] = "gpt2"
    unit: ClassVar[str] = "token"
    uses_pictures = False

    def __init__(self, network: Any, tokens: Tokens, templates: tuple[DatasetTemplate, ...], window: int) -> None:
        self.network, self.tokens, self.templates, self.window = network, tokens, templates, window
        self.alphabet, self.separator = tokens.alphabet, tokens.separator
        self.networks: Mapping[str, Any] = {_NETWORK: network}
        self.settings: Mapping[str, Any] = {"separator": tokens.separator, "window": window}
        self.files: Mapping[str, Any] = {
            _CHARACTERS: list(tokens.alphabet.characters),
            _VOCABULARY: list(tokens.vocabulary),
            _MERGES: list(tokens.merges),
        }
        self.boxes_closed = (np.arange(len(tokens)) == tokens.close).astype(np.int64)
        self.read = reading(network.backbone, tokens.writable)
        self._compiled_score = scoring(network.backbone, tokens.writable)

    @cached_property
    def heads(self) -> list[list[int]]:
        """The prompt tokens of each of `templates`, and last, of unknown templates."""
        return [self.head(template.name) for template in self.templates] + [self.head(None)]

    def normalize(self, start: str) -> str:
        """See `Tokens.normalize`."""
        return self.tokens.normalize(start)

    def start_decoding(self, prompts: Sequence[Prompt]) -> "Gpt2State":
        """Unknown templates are prompted by name."""
        return Gpt2State(self, prompts)

    def text(self, tokens: Sequence[int]) -> str:
        return self.tokens.text(tokens)

    def score(self, captions: Captions, first: int, last: int) -> CaptionScores:
        """Captions longer than the window are scored in pieces."""
        likelihood = np.zeros(last - first)
        tokens, right = np.zeros(last - first, np.int64), np.zeros(last - first, np.int64)
        most = max(1, _MAX_LOGITS // (self.window * len(self.tokens)))
        for begin in range(first, last, _BATCH):
            end = min(begin + _BATCH, last)
            rows = Rows(cut_pieces(self.tokens, self.heads, captions, begin, end, window=self.window), self.window, 0)
            # Powers of two, to compile few shapes.
            at_once = min(most, 1 << (len(rows) - 1).bit_length())
            for at in range(0, len(rows), at_once):
                inputs, labels, owners = rows.owned(np.arange(at, at + at_once))
                likely, chosen = (np.asarray(found) for found in self._compiled_score(inputs, labels))
                labelled = owners >= 0
                owner = owners[labelled] + begin - first
                np.add.at(likelihood, owner, likely[labelled].astype(np.float64))
                np.add.at(tokens, owner, 1)
                np.add.at(right, owner, chosen[labelled].astype(np.int64))
        return CaptionScores(likelihood, tokens, right, captions.lengths_of(slice(first, last)))

    def head(self, name: str | None) -> list[int]:
        """Return the prompt tokens of a template called `name`, or of an unknown one."""
        return self.tokens.head(name, self.window // 2)


def prepare(settings: Train, dataset: Dataset, progress: Progress) -> TrainingTask:  # noqa: ARG001
    """Build a new model and its training; batches are rows of packed captions, without a loss on prompts."""
    own = settings.gpt2
    # Keras's global seed also seeds dropout.
    keras.utils.set_random_seed(settings.seed)
    if own.preset == TINY:
        names = [template.name for template in dataset.manifest.templates]
        vocabulary, merges = learn_tokens(chain(names, dataset.train.texts(dataset.alphabet)), TINY_TOKENS)
        network = new_network(len(vocabulary), window=own.sequence_length, dropout=own.dropout)
    else:
        network, vocabulary, merges = preset_network(own.preset, window=own.sequence_length, dropout=own.dropout)
    tokens = Tokens(vocabulary, merges, dataset.alphabet, dataset.manifest.separator)
    captioner = Gpt2Captioner(network, tokens, dataset.manifest.templates, own.sequence_length)

    def rows(captions: Captions, nameless: int | None) -> Rows:
        pieces = cut_pieces(
            tokens, captioner.heads, captions, 0, len(captions), window=own.sequence_length, nameless=nameless
        )
        return Rows(pieces, own.sequence_length, settings.seed)

    learn, check = rows(dataset.train, _NAMELESS), rows(dataset.validation, None)
    training_model = packed_model(network.backbone, tokens.writable, own.sequence_length)

    def places(step: int) -> NDArray[np.int64]:
        return np.arange(step * own.batch, (step + 1) * own.batch, dtype=np.int64)

    return TrainingTask(
        captioner=captioner,
        training_model=training_model,
        validation_model=training_model,
        batch=lambda step: learn.batch(shuffled(places(step), len(learn), settings.seed)),
        validation_batch=lambda step: check.batch(np.arange(step * own.batch, (step + 1) * own.batch, dtype=np.int64)),
        validation_batches=min(settings.validation_batches, -(-len(check) // own.batch)),
        unit="tokens",
        units_per_step=own.batch * own.sequence_length,
        from_logits=True,
        make_optimizer=_optimizer,
        jit_compile=ACCELERATED,
    )


def load(parts: ModelParts) -> Gpt2Captioner:
    """Restore a trained model; see `Kind.load`."""
    networks, settings, files, templates = parts
    tokens = Tokens(files[_VOCABULARY], files[_MERGES], Alphabet(tuple(files[_CHARACTERS])), settings["separator"])
    return Gpt2Captioner(networks[_NETWORK], tokens, templates, settings["window"])


def _optimizer(learning_rate: Any) -> Any:
    """Return AdamW without weight decay on biases and normalisation."""
    optimizer = keras.optimizers.AdamW(learning_rate, weight_decay=_WEIGHT_DECAY)
    optimizer.exclude_from_weight_decay(var_names=["bias", "beta", "gamma"])
    return optimizer


# Widths and columns are rounded up, because the network is compiled for each.
_WIDTHS = 16
_LEAST_COLUMNS = 64
_COLUMNS_TO_COME = 32


class Gpt2State:
    """See `memeloom.train.contract.DecodingState`; rows are padded on the left and share a key-value cache.

    A row longer than the window loses the oldest part of its text, never its prompt.
    """

    def __init__(self, model: Gpt2Captioner, prompts: Sequence[Prompt]) -> None:
        self._model, self._tokens, self._window = model, model.tokens, model.window
        self._heads = [model.head(prompt.template.name) for prompt in prompts]
        begun = [model.tokens.begun(prompt.start) for prompt in prompts]
        self._texts = [list(text) for text, _ in begun]
        self._boxes = np.array([box for _, box in begun], np.int64)
        # Number of cached columns, and of columns of padding before each row.
        self._at = 0
        self._padding: NDArray[np.int32]
        self._unread: NDArray[np.int32]
        self._cache: tuple[Any, ...]
        self._scores: NDArray[np.float32] | None = None
        self._lay_out()

    def log_probs(self) -> NDArray[np.float32]:
        """About -1e9 for tokens that must not be written."""
        if self._scores is None:
            if self._at + self._unread.shape[1] - self._padding.min() > self._window:
                self._lay_out()
            self._scores = self._read_on()
        return self._scores

    def append(self, tokens: NDArray[np.int64]) -> None:
        """Reads the next marker in place of `close`."""
        self.log_probs()
        closed = tokens == self._tokens.close
        self._boxes = self._boxes + closed
        self._unread = np.where(closed, self._tokens.marker(self._boxes), tokens).astype(np.int32)[:, np.newaxis]
        self._scores = None
        for text, token in zip(self._texts, self._unread[:, 0].tolist(), strict=True):
            text.append(token)

    def select(self, rows: NDArray[np.int64]) -> None:
        if len(rows) == len(self._texts) and (rows == np.arange(len(rows))).all():
            return
        self._heads = [self._heads[row] for row in rows]
        self._texts = [self._texts[row].copy() for row in rows]
        self._boxes, self._padding, self._unread = self._boxes[rows], self._padding[rows], self._unread[rows]
        self._scores = None if self._scores is None else self._scores[rows]
        held = rows[padded_rows(len(rows))].astype(np.int32)
        self._cache = tuple(keras.ops.take(layer, held, axis=0) for layer in self._cache)

    def _lay_out(self) -> None:
        """Empty the cache and queue all tokens to be read again."""
        for row, (head, text) in enumerate(zip(self._heads, self._texts, strict=True)):
            room = self._window - len(head)
            if len(text) > room:
                self._texts[row] = text[-(room // 2) :]
        lines = [[*head, *text] for head, text in zip(self._heads, self._texts, strict=True)]
        width = -(-max(map(len, lines)) // _WIDTHS) * _WIDTHS
        self._unread = np.zeros((len(lines), width), np.int32)
        for row, line in enumerate(lines):
            self._unread[row, width - len(line) :] = line
        self._padding = np.array([width - len(line) for line in lines], np.int32)
        self._at = 0
        self._cache = empty_cache(self._model.network.backbone, len(padded_rows(len(lines))), _columns(width))
        self._scores = None

    def _read_on(self) -> NDArray[np.float32]:
        """Read the queued tokens; return log-probabilities of the next, (rows, tokens)."""
        ends = self._at + self._unread.shape[1]
        columns = self._cache[0].shape[2]
        if ends > columns:
            more = [(0, 0), (0, 0), (0, columns), (0, 0), (0, 0)]
            self._cache = tuple(keras.ops.pad(layer, more) for layer in self._cache)
        rows = padded_rows(len(self._texts))
        scores, self._cache = self._model.read(
            self._unread[rows], self._padding[rows], np.array(self._at, np.int32), self._cache
        )
        self._at = ends
        found: NDArray[np.float32] = np.asarray(scores)[: len(self._texts)]
        return found


def _columns(width: int) -> int:
    return max(_LEAST_COLUMNS, 1 << (width + _COLUMNS_TO_COME - 1).bit_length())
