"""GPT-2 as a kind of model: what it learns from, how it writes and how it judges."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from memeloom.configs.progress import Progress
from memeloom.configs.schema import Train, Training
from memeloom.dataset.manifest import DatasetTemplate
from memeloom.train.backend import ACCELERATED, keras
from memeloom.train.characters import Alphabet
from memeloom.train.contract import Dataset, Judged, KindName, Lesson, Prompt
from memeloom.train.corpus import Captions
from memeloom.train.gpt2.hub import TINY, TINY_TOKENS, new_network, preset_network
from memeloom.train.gpt2.network import judging, packed_model, reading
from memeloom.train.gpt2.rows import Rows, cut_pieces
from memeloom.train.gpt2.sheet import Gpt2Sheet
from memeloom.train.gpt2.tokens import Tokens, learn_tokens
from memeloom.train.shuffle import shuffled

_NETWORK = "gpt2"
_CHARACTERS, _VOCABULARY, _MERGES = "vocabulary.json", "tokens.json", "merges.json"
# Captions of templates that were never learned have no name to go by: so many of those learned go without as well.
_NAMELESS = 20
# 32 MB of logits.
_JUDGED_LOGITS = 1 << 23
_JUDGED_AT_ONCE = 4096
_WEIGHT_DECAY = 0.01


class Gpt2Captioner:
    """Writes a caption token by token, all rows with one call a token.

    network: KerasHub's `GPT2CausalLM`. window: how many tokens it reads at most.
    """

    kind: ClassVar[KindName] = "gpt2"
    unit: ClassVar[str] = "token"
    looks = False

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
        self.closes = (np.arange(len(tokens)) == tokens.close).astype(np.int64)
        self._read = reading(network.backbone, tokens.writable)
        self._judge = judging(network.backbone, tokens.writable)

    @cached_property
    def heads(self) -> list[list[int]]:
        """What stands before the captions of each of `templates`, and last, of any other."""
        return [self._head(template.name) for template in self.templates] + [self._head(None)]

    def fitting(self, start: str) -> str:
        """As `Captioner`; what OCR read is made to look like a caption, see `Tokens.fitting`."""
        return self.tokens.fitting(start)

    def open_sheet(self, prompts: Sequence[Prompt]) -> Gpt2Sheet:
        """As `Captioner`; a template that was never learned goes by its name."""
        heads = [self._head(prompt.template.name) for prompt in prompts]
        starts = [prompt.start for prompt in prompts]
        return Gpt2Sheet(self.network.backbone, self._read, self.tokens, heads, starts, self.window)

    def text(self, tokens: Sequence[int]) -> str:
        """As `Captioner`."""
        return self.tokens.text(tokens)

    def judge(self, captions: Captions, first: int, last: int) -> Judged:
        """As `Captioner`; a caption longer than the window is judged piece by piece."""
        likelihood = np.zeros(last - first)
        tokens, right = np.zeros(last - first, np.int64), np.zeros(last - first, np.int64)
        most = max(1, _JUDGED_LOGITS // (self.window * len(self.tokens)))
        for begin in range(first, last, _JUDGED_AT_ONCE):
            end = min(begin + _JUDGED_AT_ONCE, last)
            rows = Rows(cut_pieces(self.tokens, self.heads, captions, begin, end, window=self.window), self.window, 0)
            # Powers of two, so that the network is compiled a few times only.
            at_once = min(most, 1 << (len(rows) - 1).bit_length())
            for at in range(0, len(rows), at_once):
                inputs, labels, owners = rows.owned(np.arange(at, at + at_once))
                likely, chosen = (np.asarray(found) for found in self._judge(inputs, labels))
                said = owners >= 0
                owner = owners[said] + begin - first
                np.add.at(likelihood, owner, likely[said].astype(np.float64))
                np.add.at(tokens, owner, 1)
                np.add.at(right, owner, chosen[said].astype(np.int64))
        return Judged(likelihood, tokens, right, captions.lengths_of(slice(first, last)))

    def _head(self, name: str | None) -> list[int]:
        return self.tokens.head(name, self.window // 2)


class Gpt2Kind:
    """See `train.contract.Kind`."""

    def course(self, settings: Train) -> Training:
        """As `Kind`."""
        return settings.gpt2

    def lesson(self, settings: Train, dataset: Dataset, progress: Progress) -> Lesson:  # noqa: ARG002
        """As `Kind`: rows of captions, in an order that the seed fixes; only the captions are learned."""
        own = settings.gpt2
        # Dropout draws from generators that Keras seeds with its own.
        keras.utils.set_random_seed(settings.seed)
        if own.preset == TINY:
            names = [template.name for template in dataset.manifest.templates]
            vocabulary, merges = learn_tokens(chain(names, dataset.learn.texts(dataset.alphabet)), TINY_TOKENS)
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

        learn, check = rows(dataset.learn, _NAMELESS), rows(dataset.check, None)
        trainee = packed_model(network.backbone, tokens.writable, own.sequence_length)

        def batch(step: int) -> Any:
            places = np.arange(step * own.batch, (step + 1) * own.batch, dtype=np.int64)
            return learn.batch(shuffled(places, len(learn), settings.seed))

        return Lesson(
            captioner=captioner,
            trainee=trainee,
            checked=trainee,
            batch=batch,
            check=lambda step: check.batch(np.arange(step * own.batch, (step + 1) * own.batch, dtype=np.int64)),
            checks=min(settings.validation_batches, -(-len(check) // own.batch)),
            unit="tokens",
            units=own.batch * own.sequence_length,
            logits=True,
            optimizer=_optimizer,
            compiled=ACCELERATED,
        )

    def load(
        self,
        networks: Mapping[str, Any],
        settings: Mapping[str, Any],
        files: Mapping[str, Any],
        templates: tuple[DatasetTemplate, ...],
    ) -> Gpt2Captioner:
        """As `Kind`."""
        tokens = Tokens(files[_VOCABULARY], files[_MERGES], Alphabet(tuple(files[_CHARACTERS])), settings["separator"])
        return Gpt2Captioner(networks[_NETWORK], tokens, templates, settings["window"])


def _optimizer(learning_rate: Any) -> Any:
    """AdamW; biases and the scales of normalisation are left alone by its decay."""
    optimizer = keras.optimizers.AdamW(learning_rate, weight_decay=_WEIGHT_DECAY)
    optimizer.exclude_from_weight_decay(var_names=["bias", "beta", "gamma"])
    return optimizer


KIND = Gpt2Kind()
