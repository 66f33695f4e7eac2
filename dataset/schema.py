"""The record of a dataset, its pictures, and the `tf.train.Example` of both."""

from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from memeloom.dataset.examples import (
    EXAMPLE,
    VALUE,
    NotAnExample,
    integer_features,
    list_headers,
    parse_example,
    value_headers,
)

SCHEMA_VERSION: Final = 6
Split: TypeAlias = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")

Kind: TypeAlias = Literal["text", "bytes", "int64"]
Values: TypeAlias = Literal["one", "many", "optional"]
# Name, kind, number of values, and meaning; `docs/dataset.md` shows them. Text is UTF-8.
FEATURES: tuple[tuple[str, Kind, Values, str], ...] = (
    ("id", "text", "one", "id of the meme in the catalog"),
    ("template", "text", "one", "id of the template"),
    ("template_name", "text", "one", "name of the template"),
    ("source", "text", "one", "site that the meme comes from"),
    ("split", "text", "one", "train, validation or test"),
    ("text", "text", "one", "every box followed by the separator: make|all the memes|"),
    ("boxes", "text", "many", "the boxes, one value each; an empty box is an empty value"),
    ("score", "int64", "optional", "votes that the site counted when the meme was fetched; may be negative"),
    ("views", "int64", "optional", "views that the site counted when the meme was fetched"),
    ("posted_at", "int64", "optional", "time of the post, in seconds since 1970 (UTC)"),
    ("image_key", "text", "one", "sha256 in the blob store of the picture that was asked for; empty if there is none"),
    (
        "image", "bytes", "one",
        "the picture's bytes as they lie in the blob store; only with images: meme or inpainted",
    ),
)  # fmt: skip
INTEGERS: Final = tuple(name for name, kind, _, _ in FEATURES if kind == "int64")
# Settings of `images` whose pictures are in the records. Those of templates, which repeat, are in files of their own.
EMBEDDED: Final = frozenset({"meme", "inpainted"})
_CACHED_TEMPLATES = 20_000


class DatasetRecord(NamedTuple):
    """One caption; `image` is None unless the records hold the pictures, and an integer is None if it is unknown."""

    id: str
    template: str
    template_name: str
    source: str
    split: str
    text: str
    boxes: tuple[str, ...]
    image_key: str = ""
    image: bytes | None = None
    score: int | None = None
    views: int | None = None
    posted_at: int | None = None


class Picture(NamedTuple):
    """A picture that several records refer to by its key, the sha256 of its bytes in hex."""

    key: str
    data: bytes


def encode_record(record: DatasetRecord) -> bytes:
    """Return `record` as a serialised `tf.train.Example`."""
    key, image_key, text = record.id.encode(), record.image_key.encode(), record.text.encode()
    # protobuf omits an empty list; TensorFlow's parsers take a feature that is left out for an absent value.
    boxes = b"".join([VALUE[len(box)] + box for box in map(str.encode, record.boxes)]) if record.boxes else None
    image = b"" if record.image is None else _IMAGE[len(record.image)]
    body = b"".join((
        _NO_BOXES if boxes is None else _BOXES[len(boxes)] + boxes,
        _ID[len(key)], key,
        image, record.image or b"",
        _IMAGE_KEY[len(image_key)], image_key,
        b"" if record.posted_at is None else _POSTED_AT[record.posted_at],
        b"" if record.score is None else _SCORE[record.score],
        _source_to_template_name(record.source, record.split, record.template, record.template_name),
        _TEXT[len(text)], text,
        b"" if record.views is None else _VIEWS[record.views],
    ))  # fmt: skip
    return EXAMPLE[len(body)] + body


_ID, _IMAGE, _IMAGE_KEY, _SOURCE, _SPLIT, _TEMPLATE, _NAME, _TEXT = map(
    value_headers, ("id", "image", "image_key", "source", "split", "template", "template_name", "text")
)
_POSTED_AT, _SCORE, _VIEWS = map(integer_features, ("posted_at", "score", "views"))
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
            *[features[name].int64_list.value[0] if name in features else None for name in INTEGERS],
        )
    except (IndexError, UnicodeDecodeError) as error:
        raise NotAnExample(f"not a record of a dataset: {error!r}") from error


def encode_picture(picture: Picture) -> bytes:
    """Return `picture` as a serialised `tf.train.Example` of `image` and `image_key`."""
    key = picture.key.encode()
    body = b"".join((_IMAGE[len(picture.data)], picture.data, _IMAGE_KEY[len(key)], key))
    return EXAMPLE[len(body)] + body


def decode_picture(data: bytes) -> Picture:
    """Return the picture in a serialised `tf.train.Example` of any writer.

    Raises:
        NotAnExample: the bytes are not an Example, or not one of a picture.
    """
    features = parse_example(data)
    try:
        return Picture(features["image_key"].bytes_list.value[0].decode(), features["image"].bytes_list.value[0])
    except (IndexError, UnicodeDecodeError) as error:
        raise NotAnExample(f"not a picture of a dataset: {error!r}") from error
