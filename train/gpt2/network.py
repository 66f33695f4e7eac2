"""GPT-2 from KerasHub: packed rows for training and scoring, and a key-value cache for decoding.

Both call the layers of KerasHub's network and share its weights. KerasHub's `call_with_cache` needs rows of equal
length; here rows are padded on the left and have their own positions. `body` is a `GPT2Backbone`.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memeloom.configs.errors import MemeloomError
from memeloom.train.backend import ACCELERATED, compiled, keras, muted

# No XLA on a CPU (`xla=ACCELERATED`): compiling a step of 124 million parameters took 13 s and made it no faster.

# The logit of tokens that must not be written: finite, so that its product with zero is zero.
_NEVER = -1e9


def packed_logits(body: Any, writable: NDArray[np.bool_], inputs: Any) -> Any:
    """Return the logits of the next tokens, float32 (rows, width, tokens), for inputs of `Rows.batch`."""
    ops = keras.ops
    read, begins = inputs[:, 0], inputs[:, 1]
    place = ops.arange(inputs.shape[2], dtype="int32")
    # Causal attention within each piece.
    seen = (place[None, None] >= begins[:, :, None]) & (place[None, None] <= place[None, :, None])
    x = _embedded(body, read, place[None] - begins)
    for layer in body.transformer_layers:
        x = layer(x, decoder_attention_mask=seen, use_causal_mask=False)
    return _logits(body, writable, body.layer_norm(x))


def packed_model(body: Any, writable: NDArray[np.bool_], width: int) -> Any:
    """Return the Keras model for training: int32 (rows, 2, width) to logits (rows, width, tokens)."""
    inputs = keras.Input((2, width), dtype="int32", name="rows")
    return keras.Model(inputs, _Packed(body, writable)(inputs))


class _Packed(keras.layers.Layer):  # type: ignore[misc]  # keras has no types
    def __init__(self, body: Any, writable: NDArray[np.bool_]) -> None:
        super().__init__(name="packed")
        self._body, self._writable = body, writable

    def call(self, inputs: Any) -> Any:
        return packed_logits(self._body, self._writable, inputs)


def scoring(body: Any, writable: NDArray[np.bool_]) -> Callable[..., Any]:
    """Return a compiled function from inputs and labels to log-likelihoods, and True where a label is the argmax."""

    def score(inputs: Any, labels: Any) -> Any:
        ops = keras.ops
        scores = ops.log_softmax(packed_logits(body, writable, inputs), axis=-1)
        likelihood = ops.squeeze(ops.take_along_axis(scores, labels[..., None], axis=-1), -1)
        return likelihood, ops.cast(ops.argmax(scores, axis=-1), "int32") == labels

    return compiled(score, variables=body.variables, xla=ACCELERATED)


def reading(body: Any, writable: NDArray[np.bool_]) -> Callable[..., Any]:
    """Return a compiled function that reads tokens after those in the cache.

    It takes tokens, int32 (rows, new); columns of padding before each row, int32 (rows,); the first new column, int32
    (); and the cache, an array (rows, 2, columns, heads, size) per layer. It returns log-probabilities of the next
    token, float32 (rows, tokens), and the new cache.
    """

    def read(tokens: Any, padding: Any, at: Any, cache: Any) -> Any:
        ops = keras.ops
        place = at + ops.arange(tokens.shape[1], dtype="int32")
        column = ops.arange(cache[0].shape[2], dtype="int32")
        seen = ops.cast(column[None] >= padding[:, None], "int32")
        x = _embedded(body, tokens, ops.maximum(place[None] - padding[:, None], 0))
        after = []
        for layer, before in zip(body.transformer_layers, cache, strict=True):
            x, now = layer(
                x, self_attention_cache=before, self_attention_cache_update_index=at, decoder_padding_mask=seen
            )
            after.append(now)
        logits = _logits(body, writable, body.layer_norm(x[:, -1:]))
        return ops.log_softmax(logits[:, 0], axis=-1), tuple(after)

    return compiled(read, variables=body.variables, xla=ACCELERATED)


def empty_cache(body: Any, rows: int, columns: int) -> tuple[Any, ...]:
    """Return an empty cache for `reading`."""
    shape = (rows, 2, columns, body.num_heads, body.hidden_dim // body.num_heads)
    return tuple(keras.ops.zeros(shape, dtype=body.compute_dtype) for _ in range(body.num_layers))


def _embedded(body: Any, tokens: Any, positions: Any) -> Any:
    x = body.token_embedding(tokens)
    x = body.embeddings_add((x, body.position_embedding(x, positions=positions)))
    return body.embeddings_dropout(x)


def _logits(body: Any, writable: NDArray[np.bool_], x: Any) -> Any:
    logits = keras.ops.cast(body.token_embedding(x, reverse=True), "float32")
    return keras.ops.where(writable, logits, _NEVER)


TINY = "tiny"
TINY_TOKENS = 2000


def _imported() -> Any:
    try:
        # It imports TensorFlow with any backend.
        with muted():
            return import_module("keras_hub")
    except ImportError as error:
        raise MemeloomError(f'the model gpt2 needs KerasHub ({error}): pip install "memeloom[hub]"') from error


# Keras needs KerasHub's classes to load a model.
_HUB = _imported()


def new_network(tokens: int, *, window: int, dropout: float) -> Any:
    """Return a GPT-2 of half a million parameters, initialised from Keras's global seed."""
    backbone = _HUB.models.GPT2Backbone(
        vocabulary_size=tokens,
        num_layers=2,
        num_heads=4,
        hidden_dim=128,
        intermediate_dim=512,
        dropout=dropout,
        max_sequence_length=window,
    )
    return _HUB.models.GPT2CausalLM(backbone)


def preset_network(preset: str, *, window: int, dropout: float) -> tuple[Any, list[str], list[str]]:
    """Return the GPT-2 of a KerasHub preset or folder, its vocabulary and its merges.

    Raises:
        MemeloomError: it cannot be downloaded or read, or its context is shorter than `window`.
    """
    try:
        backbone = _HUB.models.GPT2Backbone.from_preset(preset, dropout=dropout)
        tokenizer = _HUB.models.GPT2Tokenizer.from_preset(preset)
    except Exception as error:
        # Downloads and formats fail with many kinds of exceptions.
        raise MemeloomError(
            f"train.gpt2.preset {preset!r} cannot be loaded ({_reason(error, preset)}); name a GPT-2 that KerasHub can "
            f"download from here, a folder that holds one, or {TINY}"
        ) from error
    most = backbone.max_sequence_length
    if window > most:
        raise MemeloomError(f"train.gpt2.sequence_length is {window}, but {preset!r} reads at most {most} tokens")
    vocabulary = sorted(tokenizer.vocabulary, key=tokenizer.vocabulary.__getitem__)
    merges = [merge for merge in tokenizer.merges if not merge.startswith("#version")]
    if len(vocabulary) != backbone.vocabulary_size:
        raise MemeloomError(f"train.gpt2.preset {preset!r}: its vocabulary is not the one of its weights")
    return _HUB.models.GPT2CausalLM(backbone), vocabulary, merges


def _reason(error: Exception, preset: str) -> str:
    if isinstance(error, OSError) and not Path(preset).exists():
        return f"the download failed: {type(error).__name__}"
    return (str(error).strip() or type(error).__name__).splitlines()[0].split(". ")[0].rstrip(".")
