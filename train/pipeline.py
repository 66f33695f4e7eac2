"""From shards to examples: every prefix of every caption, made while training and never stored.

The captions of a split lie in memory end to end (3 bytes a character). An example is a position in them:
its text is what the caption says before it, its label the character there. Shuffling is a permutation of
the positions that can be computed at any place, so the examples of a step are a function of the seed and
the step alone, and a training continues at any step without replaying the ones before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from configs.errors import MemeloomError
from dataset.formats.registry import tensorflow_reads
from dataset.manifest import Manifest
from dataset.schema import Split
from dataset.verify import verify_dataset
from train.backend import tf
from train.characters import MAX_BOXES, PREFIX_WIDTH, Alphabet

_READ_AT_ONCE = 4096
_SHUFFLE_ROUNDS = 4
_UNICODE = 0x110000


@dataclass(frozen=True, slots=True)
class Captions:
    """The captions of a split, end to end.

    characters: numbers, uint16 (characters,). boxes: text box that each stands in, uint8 (characters,).
    starts: where each caption begins, and where the last ends, int64 (captions + 1,).
    templates: row of each caption's template in `prefixes`, int32 (captions,).
    prefixes: numbers before the text, uint16 (templates, boxes, PREFIX_WIDTH).
    """

    characters: NDArray[np.uint16]
    boxes: NDArray[np.uint8]
    starts: NDArray[np.int64]
    templates: NDArray[np.int32]
    prefixes: NDArray[np.uint16]

    @property
    def examples(self) -> int:
        """How many examples they make: one a character."""
        return len(self.characters)


def read_captions(folder: Path, manifest: Manifest, split: Split, alphabet: Alphabet) -> Captions:
    """Read all captions of `split` from the dataset in `folder`.

    Raises:
        MemeloomError: the files are none that TensorFlow reads, the split is empty, or a shard is damaged
            (the line names file and place).
    """
    if not tensorflow_reads(manifest.format, manifest.compression):
        raise MemeloomError(
            f"{folder}: training reads tfrecord without compression or with gzip, and this is {manifest.format} with "
            f"{manifest.compression}; build it again with another dataset.format or dataset.compression"
        )
    paths = [str(path) for path in manifest.paths(folder, split)]
    ids = [template.id for template in manifest.templates]
    try:
        parts = [tuple(part) for part in _encoded(paths, manifest, ids, alphabet).as_numpy_iterator()] if paths else []
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
        verify_dataset(folder)  # names the file and the place, if a byte is wrong
        raise MemeloomError(
            f"{folder}: records of another schema ({error.message}); build the dataset again"
        ) from error
    records = sum(len(lengths) for _, lengths, _ in parts)
    if records != manifest.splits[split]:
        raise MemeloomError(
            f"{folder}: {records:,} {split} captions, expected {manifest.splits[split]:,}; build the dataset again"
        )
    if not records:
        raise MemeloomError(
            f"{folder}: no {split} captions; collect more memes, or change dataset.split, and build it again"
        )
    characters, lengths, templates = (np.concatenate(column) for column in zip(*parts, strict=True))
    if templates.min() < 0:
        raise MemeloomError(f"{folder}: captions on a template that the manifest lacks; build the dataset again")
    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    boxes = _box_indices(characters, starts, int(alphabet.encode(manifest.separator)[0]))
    return Captions(characters, boxes, starts, templates, alphabet.prefixes(ids, int(boxes.max()) + 1))


def example_batches(captions: Captions, *, sequence_length: int, batch: int, seed: int, steps: range) -> Any:
    """A `tf.data.Dataset` of the batches of `steps`, shuffled over all examples, pass after pass.

    Each is (int32 (batch, sequence_length), int32 (batch,)): input, and index of the character that follows.
    """
    held = _Tensors(captions, sequence_length)
    examples = tf.constant(captions.examples, tf.int64)

    def make(step: Any) -> tuple[Any, Any]:
        at = step * batch + tf.range(batch, dtype=tf.int64)
        seeds = tf.stack([tf.fill([batch], tf.constant(seed, tf.int64)), at // examples, tf.zeros_like(at)], axis=1)
        places = tf.raw_ops.RandomIndexShuffle(
            index=at % examples, seed=seeds, max_index=examples - 1, rounds=_SHUFFLE_ROUNDS
        )
        return held.examples_at(places)

    numbers = tf.data.Dataset.range(steps.start, steps.stop)
    return numbers.map(make, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).prefetch(tf.data.AUTOTUNE)


def example_count(captions: Captions, *, batch: int, batches: int) -> int:
    """Examples in the first `batches` of one pass: the rest of a pass is a smaller batch."""
    return min(captions.examples, batch * batches)


def one_pass(captions: Captions, *, sequence_length: int, batch: int, seed: int, batches: int) -> Any:
    """As `example_batches`, at most `batches` of one single pass: the same examples each time."""
    held = _Tensors(captions, sequence_length)
    count = example_count(captions, batch=batch, batches=batches)
    order = np.random.default_rng(seed).permutation(captions.examples)[:count]
    places = tf.data.Dataset.from_tensor_slices(order.astype(np.int64)).batch(batch)
    return places.map(held.examples_at, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def compose(prefixes: Any, tails: Any, lengths: Any) -> Any:
    """Inputs for the network: padding, prefix and text, aligned on the right.

    prefixes: (n, PREFIX_WIDTH), padded on the left. tails: (n, sequence_length - PREFIX_WIDTH), the end of
    the text, aligned on the right. lengths: (n,), how many characters of the tail are text.
    A text too long loses its beginning, never its prefix. Returns int32 (n, sequence_length).
    """
    both = tf.cast(tf.concat([prefixes, tails], axis=1), tf.int32)
    width = tf.shape(both)[1]
    place = tf.range(width)[tf.newaxis]
    in_prefix = place - (width - PREFIX_WIDTH - tf.cast(lengths, tf.int32)[:, tf.newaxis])
    source = tf.where(in_prefix < PREFIX_WIDTH, tf.maximum(in_prefix, 0), place)
    return tf.where(in_prefix >= 0, tf.gather(both, source, batch_dims=1), 0)


class _Tensors:
    """The captions as tensors, and how examples are cut out of them."""

    def __init__(self, captions: Captions, sequence_length: int) -> None:
        self._characters = tf.constant(captions.characters)
        self._boxes = tf.constant(captions.boxes)
        self._starts = tf.constant(captions.starts)
        self._templates = tf.constant(captions.templates)
        self._prefixes = tf.constant(captions.prefixes)
        self._tail = tf.range(sequence_length - PREFIX_WIDTH, 0, -1, dtype=tf.int64)

    def examples_at(self, places: Any) -> tuple[Any, Any]:
        """The examples whose label stands at `places`, int64 (batch,)."""
        caption = tf.searchsorted(self._starts, places, side="right") - 1
        written = places - tf.gather(self._starts, caption)
        tails = tf.gather(self._characters, tf.maximum(places[:, tf.newaxis] - self._tail, 0))
        box = tf.cast(tf.gather(self._boxes, places), tf.int32)
        prefixes = tf.gather_nd(self._prefixes, tf.stack([tf.gather(self._templates, caption), box], axis=1))
        inputs = compose(prefixes, tails, tf.minimum(written, tf.size(self._tail, tf.int64)))
        return inputs, tf.cast(tf.gather(self._characters, places), tf.int32) - 1


def _encoded(paths: Sequence[str], manifest: Manifest, ids: Sequence[str], alphabet: Alphabet) -> Any:
    """Batches of (numbers of all characters, characters a caption, row of its template)."""
    rows = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant(ids, tf.string), tf.range(len(ids))), default_value=-1
    )
    table = np.zeros(_UNICODE, np.uint16)
    table[[ord(character) for character in alphabet.characters]] = np.arange(1, len(alphabet) + 1)
    numbers = tf.constant(table)
    wanted = {name: tf.io.FixedLenFeature([], tf.string) for name in ("text", "template")}

    def encode(payloads: Any) -> tuple[Any, Any, Any]:
        record = tf.io.parse_example(payloads, wanted)
        points = tf.strings.unicode_decode(record["text"], "UTF-8")
        known = tf.ragged.map_flat_values(tf.gather, numbers, points)
        known = tf.ragged.boolean_mask(known, known > 0)
        return known.flat_values, known.row_lengths(), rows.lookup(record["template"])

    compression = "GZIP" if manifest.compression == "gzip" else ""
    shards = tf.data.TFRecordDataset(list(paths), compression_type=compression, buffer_size=2**20)
    return shards.batch(_READ_AT_ONCE).map(encode, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)


def _box_indices(characters: NDArray[np.uint16], starts: NDArray[np.int64], separator: int) -> NDArray[np.uint8]:
    """How many separators stand before each character in its caption: the index of its text box."""
    before = np.concatenate([[0], np.cumsum(characters == separator, dtype=np.int64)])
    boxes = before[:-1] - np.repeat(before[starts[:-1]], np.diff(starts))
    capped: NDArray[np.uint8] = np.minimum(boxes, MAX_BOXES - 1).astype(np.uint8)
    return capped
