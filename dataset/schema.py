"""The record of a dataset, and its `tf.train.Example`."""

from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from memeloom.dataset.examples import EXAMPLE, VALUE, NotAnExample, list_headers, parse_example, value_headers

SCHEMA_VERSION: Final = 3
Split: TypeAlias = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")

# Name, number of values, and meaning; `docs/dataset.md` shows them. All are bytes; text is UTF-8.
FEATURES: tuple[tuple[str, Literal["one", "many"], str], ...] = (
    ("id", "one", "id of the meme in the catalog"),
    ("template", "one", "id of the template"),
    ("template_name", "one", "name of the template"),
    ("source", "one", "site that the meme comes from"),
    ("split", "one", "train, validation or test"),
    ("text", "one", "every box followed by the separator: make|all the memes|"),
    ("boxes", "many", "the boxes, one value each; an empty box is an empty value"),
    ("image_key", "one", "sha256 in the blob store of the picture that was asked for; empty if there is none"),
    ("image", "one", "the picture's bytes as they lie in the blob store; only if the dataset was built with images"),
)
_CACHED_TEMPLATES = 20_000


class DatasetRecord(NamedTuple):
    """One caption; `image` is None in a dataset built without images."""

    id: str
    template: str
    template_name: str
    source: str
    split: str
    text: str
    boxes: tuple[str, ...]
    image_key: str = ""
    image: bytes | None = None


def encode_record(record: DatasetRecord) -> bytes:
    """Return `record` as a serialised `tf.train.Example`."""
    key, image_key, text = record.id.encode(), record.image_key.encode(), record.text.encode()
    # protobuf omits an empty list.
    boxes = b"".join([VALUE[len(box)] + box for box in map(str.encode, record.boxes)]) if record.boxes else None
    image = b"" if record.image is None else _IMAGE[len(record.image)]
    body = b"".join((
        _NO_BOXES if boxes is None else _BOXES[len(boxes)] + boxes,
        _ID[len(key)], key,
        image, record.image or b"",
        _IMAGE_KEY[len(image_key)], image_key,
        _source_to_template_name(record.source, record.split, record.template, record.template_name),
        _TEXT[len(text)], text,
    ))  # fmt: skip
    return EXAMPLE[len(body)] + body


_ID, _IMAGE, _IMAGE_KEY, _SOURCE, _SPLIT, _TEMPLATE, _NAME, _TEXT = map(
    value_headers, ("id", "image", "image_key", "source", "split", "template", "template_name", "text")
)
_BOXES = list_headers("boxes")
_NO_BOXES = b"\x0a\x09\x0a\x05boxes\x12\x00"


@lru_cache(_CACHED_TEMPLATES)
def _source_to_template_name(source: str, split: str, template: str, name: str) -> bytes:
    """Return four adjacent features, whose values repeat in many records."""
    pairs = ((_SOURCE, source), (_SPLIT, split), (_TEMPLATE, template), (_NAME, name))
    return b"".join([headers[len(value)] + value for headers, value in ((h, text.encode()) for h, text in pairs)])


def decode_record(data: bytes) -> DatasetRecord:
    """Return the record in a serialised `tf.train.Example` of any writer.

    Raises:
        NotAnExample: the bytes are not an Example, or it lacks a feature of the schema.
    """
    features = parse_example(data)
    if "boxes" not in features:
        raise NotAnExample("not a record of a dataset: no boxes")
    try:
        return DatasetRecord(
            features["id"].bytes_list.value[0].decode(),
            features["template"].bytes_list.value[0].decode(),
            features["template_name"].bytes_list.value[0].decode(),
            features["source"].bytes_list.value[0].decode(),
            features["split"].bytes_list.value[0].decode(),
            features["text"].bytes_list.value[0].decode(),
            tuple([box.decode() for box in features["boxes"].bytes_list.value]),
            features["image_key"].bytes_list.value[0].decode(),
            features["image"].bytes_list.value[0] if "image" in features else None,
        )
    except (IndexError, UnicodeDecodeError) as error:
        raise NotAnExample(f"not a record of a dataset: {error!r}") from error
