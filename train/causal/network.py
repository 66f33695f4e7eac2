"""Blocks of gated linear recurrence, whose logits correct a product of counted estimates.

What is counted needs not be learned: the network learns what to add to the estimates, and how far to trust each
(Li et al., "N-gram Is Back: Residual Learning of Neural Text Generation with n-gram Language Model", 2022).

The recurrence is h = (1 - z) h' + z x, with z and x from the input alone, so it is a parallel scan (Martin and Cundy,
"Parallelizing Linear Recurrent Neural Nets Over Sequence Length", 2018; the minGRU of Feng et al., "Were RNNs All We
Needed?", 2024). A gated feed-forward layer follows each (Shazeer, "GLU Variants Improve Transformer", 2020).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memeloom.train.backend import keras
from memeloom.train.causal.decoding import MOST_BOXES, READS
from memeloom.train.pictures.vectors import statistics

ops = keras.ops
# Initial gate biases: some units remember for a few characters, others for a whole caption.
_SHORTEST, _LONGEST = 1.5, -3.0
_CHUNK = 16
# The sum of the powers of all chains before training.
_POWERS = 1.2


@keras.saving.register_keras_serializable("memeloom")
class Sight(keras.layers.Layer):  # type: ignore[misc]  # keras has no types
    """Projects pictures: vectors (rows, captions of a row, size) to (rows, length, units).

    Each character gets the picture of its caption; `begins` (rows, length) is 1 where a caption begins. Saved models
    refer to the layers of this module by class name.
    """

    def __init__(self, units: int, seed: int, **options: Any) -> None:
        super().__init__(**{**options, "autocast": False})
        self.units, self.seed = units, seed

    def build(self, pictures_shape: Any, begins_shape: Any = None) -> None:  # noqa: ARG002
        """Create the weights; `fit_statistics` sets mean and variance once."""
        size = pictures_shape[-1]
        fixed = {"trainable": False, "dtype": "float32"}
        self.mean = self.add_weight((size,), "zeros", name="mean", **fixed)
        self.variance = self.add_weight((size,), "ones", name="variance", **fixed)
        normal = keras.initializers.RandomNormal(stddev=1 / math.sqrt(size), seed=self.seed)
        self.project = keras.layers.Dense(self.units, use_bias=False, kernel_initializer=normal)
        self.project.build((None, size))

    def fit_statistics(self, vectors: NDArray[Any]) -> None:
        """Set mean and variance from `vectors`, (pictures, size)."""
        for weight, values in zip((self.mean, self.variance), statistics(vectors), strict=True):
            weight.assign(values)

    def shown(self, vectors: Any) -> Any:
        """Project vectors (…, size) to (…, units)."""
        return self.project((vectors - self.mean) / ops.sqrt(self.variance))

    def call(self, pictures: Any, begins: Any) -> Any:
        """Return the projected picture of each character, (rows, length, units)."""
        shown = self.shown(pictures)
        caption = ops.cast(ops.cumsum(begins, axis=1), "int32") - 1
        return ops.matmul(ops.one_hot(caption, ops.shape(pictures)[1], dtype=shown.dtype), shown)

    def compute_output_spec(self, pictures: Any, begins: Any) -> Any:  # noqa: ARG002
        """See Keras."""
        return keras.KerasTensor((*begins.shape, self.units), self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """See Keras."""
        return {**super().get_config(), "units": self.units, "seed": self.seed}


@keras.saving.register_keras_serializable("memeloom")
class Core(keras.layers.Layer):  # type: ignore[misc]  # keras has no types
    """What was read and counted, and `begins` (rows, length), to logits; inputs as of `Networks`.

    Also takes and returns the recurrent state, (rows, layers, units), for decoding, and takes projected pictures,
    (rows, length, units). With 0 layers there is no recurrence. depths: number of contexts of each chain of counts.
    """

    def __init__(
        self,
        characters: int,
        templates: int,
        depths: list[int],
        units: int,
        layers: int,
        hidden: int,
        dropout: float,
        seed: int,
        **options: Any,
    ) -> None:
        # State and estimates stay float32; the inner layers cast their inputs.
        super().__init__(**{**options, "autocast": False})
        self.characters, self.templates, self.depths = characters, templates, list(depths)
        self.units, self.layers, self.hidden, self.dropout, self.seed = units, layers, hidden, dropout, seed

    def build(self, *_shapes: Any, **_more: Any) -> None:
        """Create the layers; equal seeds give equal weights and dropout."""
        layers, seeds = keras.layers, iter(range(self.seed * 1000, (self.seed + 1) * 1000))
        units, chains = self.units, len(self.depths)

        def dense(inputs: int, outputs: int, scale: float = 1.0, **more: Any) -> Any:
            normal = keras.initializers.RandomNormal(stddev=scale / math.sqrt(inputs), seed=next(seeds))
            layer = layers.Dense(outputs, kernel_initializer=normal, **{"use_bias": False, **more})
            layer.build((None, inputs))
            return layer

        def norm() -> Any:
            layer = layers.RMSNormalization(epsilon=1e-6)
            layer.build((None, units))
            return layer

        def embedding(values: int, outputs: int, deviation: float, **more: Any) -> Any:
            normal = keras.initializers.RandomNormal(stddev=deviation, seed=next(seeds))
            layer = layers.Embedding(values, outputs, embeddings_initializer=normal, **more)
            layer.build((None,))
            return layer

        self.read = [embedding(values, units, 0.3) for values in (1 + self.characters, self.templates, MOST_BOXES)]
        self.blocks = []
        for _ in range(self.layers):
            gates = keras.initializers.Constant(ops.linspace(_LONGEST, _SHORTEST, units))
            self.blocks.append({
                "norm": norm(),
                "take": dense(units, units, use_bias=True, bias_initializer=gates),
                "new": dense(units, units), "show": dense(units, units), "out": dense(units, units, 0.5),
                "norm 2": norm(),
                "up": dense(units, self.hidden), "gate": dense(units, self.hidden),
                "down": dense(self.hidden, units, 0.5),
            })  # fmt: skip
        self.last = norm()
        self.leave = dense(units, self.characters, 0.1, use_bias=True, dtype="float32")
        # The power of each chain's estimate, by the state and by how much each chain knows.
        begin = keras.initializers.Constant(_POWERS / chains)
        self.trust = dense(units, chains, 0.01, use_bias=True, bias_initializer=begin, dtype="float32")
        self.known = embedding(sum(self.depths), chains, 0.0, dtype="float32")
        self.drop = layers.Dropout(self.dropout, seed=next(seeds))

    def call(
        self, reads: Any, begins: Any, logs: Any, state: Any = None, sight: Any = None, training: bool = False
    ) -> tuple[Any, Any]:
        """Return logits (rows, length, characters) and the final state."""
        rows, length = ops.shape(begins)
        # Two axes: with three, XLA's backward matrix products on a CPU are three times slower.
        reads = ops.reshape(reads, (rows * length, len(READS) + len(self.depths)))
        x = sum(layer(reads[:, column]) for column, layer in enumerate(self.read))
        if sight is not None:
            x = x + ops.reshape(sight, (rows * length, -1))
        held = ops.reshape(1 - begins, (rows * length, 1))
        states = []
        for number, block in enumerate(self.blocks):
            normed = block["norm"](x)
            take = ops.sigmoid(ops.cast(block["take"](normed), "float32"))
            new = ops.cast(block["new"](normed), "float32")
            keep, add = (ops.reshape(values, (rows, length, self.units)) for values in ((1 - take) * held, take * new))
            found = _along(keep, add, None if state is None else state[:, number])
            states.append(found[:, -1])
            found = ops.reshape(found, (rows * length, self.units))
            shown = ops.cast(found, x.dtype) * ops.silu(block["show"](normed))
            x = x + self.drop(block["out"](shown), training=training)
            normed = block["norm 2"](x)
            between = ops.silu(block["gate"](normed)) * block["up"](normed)
            x = x + self.drop(block["down"](between), training=training)
        last = self.last(x)
        first_depths = np.cumsum([0, *self.depths[:-1]]).astype(np.int32)
        known = ops.sum(self.known(reads[:, len(READS) :] + first_depths), axis=1)
        powers = self.trust(last) + known
        counted = ops.reshape(logs, (rows * length, len(self.depths), self.characters))
        logits = self.leave(last) + ops.sum(powers[:, :, None] * counted, axis=1)
        logits = ops.reshape(logits, (rows, length, self.characters))
        return logits, ops.stack(states, axis=1) if states else ops.zeros((rows, 0, self.units), "float32")

    def compute_output_spec(self, *inputs: Any, **_: Any) -> Any:
        """See Keras."""
        begins = inputs[1]
        logits = keras.KerasTensor((*begins.shape, self.characters), "float32")
        return logits, keras.KerasTensor((begins.shape[0], self.layers, self.units), "float32")

    def get_config(self) -> dict[str, Any]:
        """See Keras."""
        own = ("characters", "templates", "depths", "units", "layers", "hidden", "dropout", "seed")
        return {**super().get_config(), **{name: getattr(self, name) for name in own}}


def _along(keep: Any, add: Any, state: Any) -> Any:
    """Scan h = keep · h + add along the second axis from `state` (rows, units); all (rows, length, units)."""
    kept, found = _by_doubling(keep, add) if keep.shape[1] is None else _joined(keep, add)
    return found if state is None else kept * state[:, None] + found


def _joined(keep: Any, add: Any) -> tuple[Any, Any]:
    """Return (kept, found) such that kept · h + found is the scan from an initial h.

    Scans chunks in parallel, then combines them (Blelloch, "Prefix Sums and Their Applications", 1990). TensorFlow's
    XLA cannot compile Keras's own scans.
    """
    rows, length, units = ops.shape(keep)
    if length <= _CHUNK:
        kept, found = [keep[:, 0]], [add[:, 0]]
        for at in range(1, length):
            found.append(keep[:, at] * found[-1] + add[:, at])
            kept.append(keep[:, at] * kept[-1])
        return ops.stack(kept, axis=1), ops.stack(found, axis=1)
    if lacking := -length % _CHUNK:
        full = (
            ops.pad(values, ((0, 0), (0, lacking), (0, 0)), constant_values=fill)
            for values, fill in ((keep, 1.0), (add, 0.0))
        )
        kept, found = _joined(*full)
        return kept[:, :length], found[:, :length]
    chunks = length // _CHUNK
    apart = (ops.reshape(values, (rows * chunks, _CHUNK, units)) for values in (keep, add))
    kept, found = (ops.reshape(values, (rows, chunks, _CHUNK, units)) for values in _joined(*apart))
    kept_before, found_before = (
        ops.pad(values[:, :-1], ((0, 0), (1, 0), (0, 0)), constant_values=fill)[:, :, None]
        for values, fill in zip(_joined(kept[:, :, -1], found[:, :, -1]), (1.0, 0.0), strict=True)
    )
    whole = kept * kept_before, kept * found_before + found
    return tuple(ops.reshape(values, (rows, length, units)) for values in whole)


def _by_doubling(keep: Any, add: Any) -> tuple[Any, Any]:
    """As `_joined`, slower, for a dynamic length (Hillis and Steele, "Data Parallel Algorithms", 1986)."""
    length = ops.shape(keep)[1]
    place = ops.arange(length)[None, :, None]

    def doubled(shift: Any, kept: Any, found: Any) -> tuple[Any, Any, Any]:
        kept_before, found_before = (
            ops.where(place >= shift, ops.roll(values, shift, axis=1), fill)
            for values, fill in ((kept, 1.0), (found, 0.0))
        )
        return shift * 2, kept * kept_before, kept * found_before + found

    one = ops.convert_to_tensor(1, "int32")
    _, kept, found = ops.while_loop(lambda shift, *_: shift < length, doubled, (one, keep, add))
    return kept, found


@dataclass(frozen=True, slots=True)
class Networks:
    """Two models that share their weights, for any number of rows.

    network: reads int32 (rows, length, 3 + chains), begins (rows, length) and logs (rows, length, chains, characters)
        to logits (rows, length, characters). reads: the number of the character before, those of the template and the
        box, and how many contexts of each chain were counted. begins: 1 where a caption begins, and in the padding.
        logs: the logarithms of the estimates of the chains.
    step: reads (rows, 3 + chains), logs (rows, chains, characters) and state (rows, layers, units) to
        log-probabilities (rows, characters) and state.

    With pictures, network also takes the picture vectors of each row's captions in order, float32 (rows, captions of a
    row, size), and step the projected picture of each row, (rows, units).
    """

    network: Any
    step: Any
    core: Core
    sight: Sight | None


def join(core: Core, sight: Sight | None = None, size: int = 0) -> Networks:
    """Build the models around new or trained layers. size: of a picture vector, with `sight`."""
    columns, counted = len(READS) + len(core.depths), (len(core.depths), core.characters)
    reads = keras.Input((None, columns), dtype="int32", name="reads")
    begins = keras.Input((None,), dtype="float32", name="begins")
    logs = keras.Input((None, *counted), dtype="float32", name="logs")
    now = keras.Input((columns,), dtype="int32", name="now")
    counted_now = keras.Input(counted, dtype="float32", name="counted")
    state = keras.Input((core.layers, core.units), dtype="float32", name="state")
    pictures, seen, placed, shown = [], [], None, None
    if sight is not None:
        pictures = [keras.Input((None, size), dtype="float32", name="pictures")]
        seen = [keras.Input((core.units,), dtype="float32", name="seen")]
        placed, shown = sight(pictures[0], begins), seen[0][:, None]
    first = ops.zeros_like(now[:, :1], dtype="float32")
    written, after = core(now[:, None], first, counted_now[:, None], state, shown)
    return Networks(
        network=keras.Model(
            [reads, begins, logs, *pictures], core(reads, begins, logs, sight=placed)[0], name="causal"
        ),
        step=keras.Model([now, counted_now, state, *seen], [ops.log_softmax(written[:, 0]), after], name="step"),
        core=core,
        sight=sight,
    )
