"""Parts of SavedModels that take texts, made of TensorFlow's own operations."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from memeloom.dataset.manifest import DatasetTemplate


def lookup(content: Mapping[str, Any], default: Any) -> Any:
    """A table that finds texts or numbers by texts."""
    values = tf.constant(list(content.values()), tf.string if isinstance(default, str) else tf.int32)
    initial = tf.lookup.KeyValueTensorInitializer(tf.constant(list(content)), values)
    return tf.lookup.StaticHashTable(initial, default)


def template_names(templates: Sequence[DatasetTemplate]) -> dict[str, str]:
    """The ids of templates by id, slug and name, in lower case; the most frequent one wins a name that several have.

    Graphs look up what `tf.strings.lower` makes of a name, which leaves ß as it is. The case folded name is there, too,
    for STRASSE is Straße.
    """
    return {
        fold(getattr(template, known_as)): template.id
        for known_as in ("name", "slug", "id")
        for fold in (str.casefold, str.lower)
        for template in reversed(templates)
    }
