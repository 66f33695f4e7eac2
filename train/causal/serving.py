"""The SavedModel endpoint of `causal`: from texts to probabilities, all in the graph.

Repeats `train.causal.contexts` in TensorFlow operations, so that a SavedModel does not need this package. Its uint32
numbers are int64 here, because every device can multiply those.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from memeloom.train.causal import contexts as own
from memeloom.train.causal.model import CausalCaptioner
from memeloom.train.characters import END
from memeloom.train.export import Endpoint, lookup, template_names

_BITS = 0xFFFFFFFF


def endpoints(model: CausalCaptioner) -> Mapping[str, Mapping[str, Endpoint]]:
    """Return the endpoint `next_character`.

    Inputs: text, string (rows,), the caption so far, each box ended by the separator; template, string (rows,), id,
    slug or name in any case, or any other text for an unknown template.
    Outputs: probabilities, float32 (rows, characters), in the order of `vocabulary.json`; likeliest, string (rows,),
    the most probable character.
    """
    reader = _Reader(model)

    def next_character(text: Any, template: Any) -> dict[str, Any]:
        probabilities = reader(text, template)
        return {"probabilities": probabilities, "likeliest": tf.gather(reader.alphabet, tf.argmax(probabilities, 1))}

    strings = [tf.TensorSpec((None,), tf.string, name) for name in ("text", "template")]
    return {"causal": {"next_character": Endpoint(next_character, strings, (reader,))}}


class _Reader(tf.Module):  # type: ignore[misc]  # tensorflow has no types
    """Texts and templates to probabilities of the next character, as `CausalState` computes them."""

    def __init__(self, model: CausalCaptioner) -> None:
        super().__init__(name="reader")
        spec, characters = model.spec, model.alphabet.characters
        self._lower = model.alphabet.normalize("A") == "a"
        self.alphabet = tf.constant(list(characters))
        self._numbers = lookup({character: number for number, character in enumerate(characters, start=1)}, 0)
        rows = {template.id: row for row, template in enumerate(model.templates, start=1)}
        names = {name: rows[known] for name, known in template_names(model.templates).items()}
        self._templates = lookup(names, 0)
        self._numbers_of_templates = tf.constant(model.template_numbers)
        self._step, self._state_shape = model.parts.step, model.state_shape
        self._separator, self._characters = spec.separator, len(characters)
        self._ends = tf.constant(spec.spaces)
        self._random = _constant(own.random_numbers(np.arange(len(characters) + 1, dtype=np.uint32)))
        self._away, self._first = (_constant(part.ravel()) for part in own.parts(spec.bits))
        self._seen = None if (seen := model.seen_templates()) is None else tf.constant(seen)

    def __call__(self, text: Any, template: Any) -> Any:
        characters, lengths = self._known(text)
        template = self._templates.lookup(tf.strings.lower(template, encoding="utf-8"))
        seen = [] if self._seen is None else [tf.gather(self._seen, template)]
        none = tf.zeros_like(lengths)
        state = tf.zeros((tf.shape(lengths)[0], *self._state_shape))
        last = tf.zeros((own.ORDERS, tf.shape(lengths)[0]), tf.int64)
        # The fields of `ContextState` without the template.
        context = (last, none, none, none, none, none, none)
        template = tf.gather(self._numbers_of_templates, template)

        def read(at: Any, context: Any, state: Any) -> Any:
            character = characters[:, at]
            _, after = self._step([self._contexts(context, template), state, *seen], training=False)
            there = at < lengths
            context = tuple(
                tf.where(there, new, old) for new, old in zip(self._read(context, character), context, strict=True)
            )
            return at + 1, context, tf.where(there[:, None, None], after, state)

        most = tf.shape(characters, tf.int64)[1]
        shapes = tf.TensorShape([]), (last.shape, *(none.shape for _ in context[1:])), state.shape
        _, context, state = tf.while_loop(
            lambda at, *_: at < most, read, (tf.constant(0, tf.int64), context, state), shape_invariants=shapes
        )
        return tf.exp(self._step([self._contexts(context, template), state, *seen], training=False)[0])

    def _known(self, text: Any) -> tuple[Any, Any]:
        """The numbers of the characters, (rows, longest), without those that the model does not know; and how many."""
        text = tf.strings.lower(text, encoding="utf-8") if self._lower else text
        # As in `Alphabet.normalize`.
        text = tf.strings.regex_replace(text, END, " ")
        numbers = tf.ragged.map_flat_values(self._numbers.lookup, tf.strings.unicode_split(text, "UTF-8"))
        numbers = tf.ragged.boolean_mask(numbers, numbers > 0)
        return tf.cast(numbers.to_tensor(), tf.int64), numbers.row_lengths()

    def _read(self, context: Any, character: Any) -> Any:
        """As `ContextState.read`."""
        last, word, before, before_that, box, place, number = context
        ends, closes = tf.gather(self._ends, character), character == self._separator
        drawn, none = tf.gather(self._random, character), tf.zeros_like(word)
        return (
            tf.concat([character[None], last[:-1]], axis=0),
            tf.where(ends, none, (word + drawn) * int(own.BASE) & _BITS),
            tf.where(ends, word, before),
            tf.where(ends, before, before_that),
            tf.where(closes, none, (box + drawn) * int(own.BASE) & _BITS),
            tf.where(closes, none, place + 1),
            number + tf.cast(closes, tf.int64),
        )

    def _contexts(self, context: Any, template: Any) -> Any:
        """As `context_rows`."""
        last, word, before, before_that, box, place, number = context
        chain = [tf.zeros_like(word)]
        for back in range(own.ORDERS):
            chain.append(_mixed(chain[-1], last[back]))
        template = _mixed(template, number)
        place = tf.minimum(place, own.FARTHEST)
        on_template = [_mixed(each, template) for each in (chain[3], chain[5], box, word, place)]
        two = _mixed(word, before)
        three = _mixed(two, before_that)
        found = [*chain[2:], template, *on_template[:2], word, two, three, *on_template[2:]]
        hashed = _mixed(tf.stack(found, axis=1), tf.range(1, len(found) + 1, dtype=tf.int64))
        rows = tf.bitwise.right_shift(hashed * int(own.LAST) & _BITS, self._away) + self._first + self._characters + 2
        return tf.cast(tf.concat([last[0][:, None] + 1, rows], axis=1), tf.int32)


def _mixed(one: Any, other: Any) -> Any:
    value = (one * int(own.SPREAD) + other + 1) * int(own.MIX) & _BITS
    return tf.bitwise.bitwise_xor(value, tf.bitwise.right_shift(value, tf.constant(15, tf.int64)))


def _constant(values: Any) -> Any:
    return tf.constant(values.astype(np.int64))
