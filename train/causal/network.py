"""An embedding table, blocks of gated linear recurrence, and a skip connection from the contexts to the logits.

The recurrence is h = (1 - z) h' + z x, with z and x from the input alone, so it is a parallel scan (Martin and Cundy,
"Parallelizing Linear Recurrent Neural Nets Over Sequence Length", 2018; the minGRU of Feng et al., "Were RNNs All We
Needed?", 2024). A gated feed-forward layer follows each (Shazeer, "GLU Variants Improve Transformer", 2020).
"""

import math
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from memeloom.train.backend import keras
from memeloom.train.causal.contexts import NAMES, NULL_ROW
from memeloom.train.pictures.vectors import statistics

ops = keras.ops
_CONTEXTS = len(NAMES)
# Initial gate biases: some units remember for a few characters, others for a whole caption.
_SHORTEST, _LONGEST = 1.5, -3.0
_CHUNK = 16


@keras.saving.register_keras_serializable("memeloom")
class Table(keras.layers.Layer):  # type: ignore[misc]  # keras has no types
    """A vector for each context: rows int32 (…, 16) to float32 (…, 16 · width).

    See `memeloom.train.contract.EmbeddingTable`; learned by Adagrad (Duchi et al., "Adaptive Subgradient Methods",
    2011) with one sum per row.
    """

    epsilon = 1e-4
    null_row = NULL_ROW

    def __init__(self, rows: int, width: int, living: int, rate: float, seed: int, **options: Any) -> None:
        super().__init__(**{**options, "trainable": False, "dtype": "float32"})
        self.rows, self.width, self.living, self.rate, self.seed = rows, width, living, rate, seed

    def build(self, _shape: Any) -> None:
        """Initialise rows 1 to `living`, those of single characters, at random, and the others with zero."""

        def begin(shape: tuple[int, int], dtype: Any = None) -> Any:
            drawn = keras.random.normal((self.living, shape[1]), stddev=0.5, dtype=dtype, seed=self.seed)
            return ops.pad(drawn, ((1, shape[0] - self.living - 1), (0, 0)))

        self.vectors = self.add_weight((self.rows, self.width), begin, name="vectors", **_ALIKE)
        self.squares = self.add_weight((self.rows,), "zeros", name="squares", **_ALIKE)

    def call(self, rows: Any) -> Any:
        """Return the concatenated vectors."""
        found = ops.take(self.vectors, rows, axis=0)
        return ops.reshape(found, (*ops.shape(rows)[:-1], _CONTEXTS * self.width))

    def get_config(self) -> dict[str, Any]:
        """See Keras."""
        own = {name: getattr(self, name) for name in ("rows", "width", "living", "rate", "seed")}
        return {**super().get_config(), **own}

    def compute_output_spec(self, rows: Any) -> Any:
        """See Keras."""
        return keras.KerasTensor((*rows.shape[:-1], _CONTEXTS * self.width), "float32")


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


# All devices hold equal tables and apply equal updates.
_ALIKE: dict[str, Any] = {"trainable": False, "aggregation": "only_first_replica"}


@keras.saving.register_keras_serializable("memeloom")
class Core(keras.layers.Layer):  # type: ignore[misc]  # keras has no types
    """Vectors of the contexts (rows, length, 16 · width) and `begins` (rows, length) to logits.

    Also takes and returns the recurrent state, (rows, layers, units), for decoding, and takes projected pictures,
    (rows, length, units). With 0 layers there is no recurrence.
    """

    def __init__(
        self,
        characters: int,
        units: int,
        layers: int,
        hidden: int,
        dropout: float,
        blank: float,
        seed: int,
        **options: Any,
    ) -> None:
        # State and vectors stay float32; the inner layers cast their inputs.
        super().__init__(**{**options, "autocast": False})
        self.characters, self.units, self.layers, self.hidden = characters, units, layers, hidden
        self.dropout, self.blank, self.seed = dropout, blank, seed

    def build(self, vectors_shape: Any, begins_shape: Any, state_shape: Any = None, sight_shape: Any = None) -> None:  # noqa: ARG002
        """Create the layers; equal seeds give equal weights and dropout."""
        layers, seeds = keras.layers, iter(range(self.seed * 1000, (self.seed + 1) * 1000))

        def dense(inputs: int, outputs: int, scale: float = 1.0, **more: Any) -> Any:
            normal = keras.initializers.RandomNormal(stddev=scale / math.sqrt(inputs), seed=next(seeds))
            layer = layers.Dense(outputs, kernel_initializer=normal, **{"use_bias": False, **more})
            layer.build((None, inputs))
            return layer

        def norm() -> Any:
            layer = layers.RMSNormalization(epsilon=1e-6)
            layer.build((None, self.units))
            return layer

        width, units = vectors_shape[-1], self.units
        self.enter = dense(width, units)
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
        self.skip = dense(width, self.characters, 0.1, dtype="float32")
        self.drop = layers.Dropout(self.dropout, seed=next(seeds))
        # Drops whole contexts.
        self.forget = layers.Dropout(self.blank, noise_shape=(None, _CONTEXTS, 1), seed=next(seeds))

    def call(
        self, vectors: Any, begins: Any, state: Any = None, sight: Any = None, training: bool = False
    ) -> tuple[Any, Any]:
        """Return logits (rows, length, characters) and the final state."""
        rows, length = ops.shape(begins)
        # Two axes: with three, XLA's backward matrix products on a CPU are three times slower.
        seen = ops.reshape(vectors, (rows * length, -1))
        if self.blank:
            apart = ops.reshape(seen, (rows * length, _CONTEXTS, -1))
            seen = ops.reshape(self.forget(apart, training=training), (rows * length, -1))
        x = self.enter(seen)
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
        logits = self.leave(self.last(x)) + self.skip(seen)
        logits = ops.reshape(logits, (rows, length, self.characters))
        return logits, ops.stack(states, axis=1) if states else ops.zeros((rows, 0, self.units), "float32")

    def compute_output_spec(self, *inputs: Any, **_: Any) -> Any:
        """See Keras."""
        begins = inputs[1]
        logits = keras.KerasTensor((*begins.shape, self.characters), "float32")
        return logits, keras.KerasTensor((begins.shape[0], self.layers, self.units), "float32")

    def get_config(self) -> dict[str, Any]:
        """See Keras."""
        own = ("characters", "units", "layers", "hidden", "dropout", "blank", "seed")
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
    """Three models that share their weights, for any number of rows.

    network: contexts int32 (rows, length, 16) and begins (rows, length) to logits (rows, length, characters).
    training_model: the same, from the vectors of the contexts.
    step: contexts int32 (rows, 16) and state (rows, layers, units) to log-probabilities (rows, characters) and state.

    With pictures, network and training_model also take the picture vectors of each row's captions in order, float32
    (rows, captions of a row, size), and step the projected picture of each row, (rows, units).
    """

    network: Any
    training_model: Any
    step: Any
    table: Table
    core: Core
    sight: Sight | None


def join(table: Table, core: Core, sight: Sight | None = None, size: int = 0) -> Networks:
    """Build the models around new or trained layers. size: of a picture vector, with `sight`."""
    contexts = keras.Input((None, _CONTEXTS), dtype="int32", name="contexts")
    begins = keras.Input((None,), dtype="float32", name="begins")
    vectors = keras.Input((None, _CONTEXTS * table.width), dtype="float32", name="vectors")
    now = keras.Input((_CONTEXTS,), dtype="int32", name="now")
    state = keras.Input((core.layers, core.units), dtype="float32", name="state")
    pictures, seen, placed, shown = [], [], None, None
    if sight is not None:
        pictures = [keras.Input((None, size), dtype="float32", name="pictures")]
        seen = [keras.Input((core.units,), dtype="float32", name="seen")]
        placed, shown = sight(pictures[0], begins), seen[0][:, None]
    written, after = core(table(now[:, None]), ops.zeros_like(now[:, :1], dtype="float32"), state, shown)
    return Networks(
        network=keras.Model(
            [contexts, begins, *pictures], core(table(contexts), begins, sight=placed)[0], name="causal"
        ),
        training_model=keras.Model(
            [vectors, begins, *pictures], core(vectors, begins, sight=placed)[0], name="training_model"
        ),
        step=keras.Model([now, state, *seen], [ops.log_softmax(written[:, 0]), after], name="step"),
        table=table,
        core=core,
        sight=sight,
    )
