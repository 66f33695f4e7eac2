"""The SavedModel endpoint of `convnet`: from texts to probabilities, all in the graph.

Strings are encoded by TensorFlow operations, so that a SavedModel does not need this package.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from memeloom.train.characters import CODE_DIGITS, END, MAX_BOXES, PREFIX_WIDTH, template_code
from memeloom.train.convnet.model import ConvnetCaptioner
from memeloom.train.export import Endpoint, lookup, template_names


def endpoints(model: ConvnetCaptioner) -> Mapping[str, Mapping[str, Endpoint]]:
    """Return the endpoint `next_character`.

    Inputs: text, string (rows,), the caption so far, each box ended by the separator; template, string (rows,), id,
    slug or name of a known template in any case, or any numeric id; other texts are an error (INVALID_ARGUMENT).
    Outputs: probabilities, float32 (rows, characters), in the order of `vocabulary.json`; likeliest, string (rows,),
    the most probable character.
    """
    reader = _Reader(model)

    def next_character(text: Any, template: Any) -> dict[str, Any]:
        probabilities = model.network(reader(text, template), training=False)
        likeliest = tf.gather(reader.characters, tf.argmax(probabilities, axis=1))
        return {"probabilities": probabilities, "likeliest": likeliest}

    strings = [tf.TensorSpec((None,), tf.string, name) for name in ("text", "template")]
    return {"convnet": {"next_character": Endpoint(next_character, strings, (reader,))}}


class _Reader(tf.Module):  # type: ignore[misc]  # tensorflow has no types
    """Texts and templates to inputs of the network, as in `ConvnetState`: int32 (rows, sequence_length)."""

    def __init__(self, model: ConvnetCaptioner) -> None:
        super().__init__(name="reader")
        self._length, self._separator = model.sequence_length, model.separator
        self._lower = model.alphabet.normalize("A") == "a"
        self.characters = tf.constant(list(model.alphabet.characters))
        numbers = {character: number for number, character in enumerate(model.alphabet.characters, start=1)}
        codes = {name: template_code(known) for name, known in template_names(model.templates).items()}
        self._numbers, self._codes = lookup(numbers, 0), lookup(codes, "")

    def __call__(self, text: Any, template: Any) -> Any:
        text = tf.strings.lower(text, encoding="utf-8") if self._lower else text
        # As in `Alphabet.normalize`.
        text = tf.strings.regex_replace(text, END, " ")
        characters = tf.strings.unicode_split(text, "UTF-8")
        boxes = tf.reduce_sum(tf.cast(characters == self._separator, tf.int32), axis=1)
        box = tf.strings.as_string(tf.minimum(boxes, MAX_BOXES - 1))
        before = tf.strings.join([self._code(template), "  ", box, "  "])
        # A text too long loses its beginning, never its prefix.
        tails = self._known(characters)[:, -(self._length - PREFIX_WIDTH) :]
        seen = tf.concat([self._known(tf.strings.unicode_split(before, "UTF-8")), tails], axis=1)
        place = tf.range(self._length)[None] - (self._length - tf.cast(seen.row_lengths(), tf.int32))[:, None]
        left = seen.to_tensor(shape=(None, self._length))
        return tf.where(place >= 0, tf.gather(left, tf.maximum(place, 0), batch_dims=1), 0)

    def _known(self, characters: Any) -> Any:
        """Return the numbers of known characters, without the others."""
        numbers = tf.ragged.map_flat_values(self._numbers.lookup, characters)
        return tf.ragged.boolean_mask(numbers, numbers > 0)

    def _code(self, template: Any) -> Any:
        template = tf.strings.lower(template, encoding="utf-8")
        known = self._codes.lookup(template)
        number = tf.strings.regex_full_match(template, f"[0-9]{{1,{CODE_DIGITS}}}")
        message = "a template is named by an id, slug or name that the model learned, or an id that is a number"
        checked = tf.debugging.Assert(tf.reduce_all((known != "") | number), [message])
        with tf.control_dependencies([checked]):
            padded = tf.strings.substr(tf.strings.join(["0" * CODE_DIGITS, template]), -CODE_DIGITS, CODE_DIGITS)
        return tf.where(known != "", known, padded)
