"""What one record of a dataset holds: the features of its `tf.train.Example`, also shown in `docs/dataset.md`."""

from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from memeloom.dataset.examples import (
    EXAMPLE,
    VALUE,
    Heads,
    Lengths,
    NotAnExample,
    decode_example,
    list_heads,
    one_heads,
    read_varint,
)

SCHEMA_VERSION: Final = 3
Split: TypeAlias = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")

# Name, how many values a record has, and what they mean. All are bytes; text is UTF-8.
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
_TEMPLATES_REMEMBERED = 20_000


class DatasetRecord(NamedTuple):
    """One caption as it stands in a shard; `image` is None in a dataset built without images."""

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
    """`record` as the bytes of a `tf.train.Example`; the same bytes as `encode_example` of its features."""
    key, image_key, text = record.id.encode(), record.image_key.encode(), record.text.encode()
    # A list without values has no list at all.
    boxes = b"".join([VALUE[len(box)] + box for box in map(str.encode, record.boxes)]) if record.boxes else None
    image = b"" if record.image is None else _IMAGE[len(record.image)]
    body = b"".join((
        _NO_BOXES if boxes is None else _BOXES[len(boxes)] + boxes,
        _ID[len(key)], key,
        image, record.image or b"",
        _IMAGE_KEY[len(image_key)], image_key,
        _source_to_name(record.source, record.split, record.template, record.template_name),
        _TEXT[len(text)], text,
    ))  # fmt: skip
    return EXAMPLE[len(body)] + body


_ID, _IMAGE, _IMAGE_KEY, _SOURCE, _SPLIT, _TEMPLATE, _NAME, _TEXT = map(
    one_heads, ("id", "image", "image_key", "source", "split", "template", "template_name", "text")
)
_BOXES = list_heads("boxes")
_NO_BOXES = b"\x0a\x09\x0a\x05boxes\x12\x00"


@lru_cache(_TEMPLATES_REMEMBERED)
def _source_to_name(source: str, split: str, template: str, name: str) -> bytes:
    """Four features that stand side by side, and have the same values in very many records."""
    pairs = ((_SOURCE, source), (_SPLIT, split), (_TEMPLATE, template), (_NAME, name))
    return b"".join([heads[len(value)] + value for heads, value in ((heads, text.encode()) for heads, text in pairs)])


def decode_record(data: bytes) -> DatasetRecord:
    """The record in the bytes of a `tf.train.Example`.

    Raises:
        NotAnExample: the bytes are no Example, or it lacks a feature of the schema.
    """
    try:
        return _decode_our_own(data) or _decode_any(data)
    except (KeyError, IndexError, UnicodeDecodeError) as error:
        raise NotAnExample(f"not a record of a dataset: {error!r}") from error


def _decode_our_own(data: bytes) -> DatasetRecord | None:
    """Of an Example as `encode_record` writes it, in an eighth of the time; None if it is not quite that."""
    size, at = read_varint(data, 1)
    if data[0] != _TAG or at + size != len(data):
        return None
    values, at = _part(data, at, _BOXES, _BOXES_LENGTH)
    key, at = _part(data, at, _ID, _ID_LENGTH)
    image, at = _part(data, at, _IMAGE, _IMAGE_LENGTH)
    image_key, at = _part(data, at, _IMAGE_KEY, _IMAGE_KEY_LENGTH)
    begin = at
    for _ in range(4):
        length = data[at + 1]
        length, start = (length, at + 2) if length < _ONE_BYTE else read_varint(data, at + 1)
        at = start + length
    names = _named(data[begin:at])
    text, at = _part(data, at, _TEXT, _TEXT_LENGTH)
    if values is None or key is None or image_key is None or names is None or text is None or at != len(data):
        return None
    source, split, template, name = names
    texts = text.decode(), _values(values)
    return DatasetRecord(key.decode(), template, name, source, split, *texts, image_key.decode(), image)


_TAG, _ONE_BYTE = 0x0A, 0x80
_BOXES_LENGTH, _ID_LENGTH, _IMAGE_LENGTH, _IMAGE_KEY_LENGTH, _TEXT_LENGTH = map(
    Lengths, (_BOXES, _ID, _IMAGE, _IMAGE_KEY, _TEXT)
)


def _part(data: bytes, at: int, heads: Heads, lengths: Lengths) -> tuple[bytes | None, int]:
    """What stands at `at` behind its head, and where it ends; None and `at` if another feature stands there."""
    length = data[at + 1]
    if length < _ONE_BYTE:
        end = at + 2 + length
    else:
        length, start = read_varint(data, at + 1)
        end = start + length
    value_at = end - lengths[end - at]
    if data[at:value_at] != heads[end - value_at]:
        return None, at
    return data[value_at:end], end


@lru_cache(_TEMPLATES_REMEMBERED)
def _named(data: bytes) -> tuple[str, ...] | None:
    """The four features of `_source_to_name`."""
    names: list[str] = []
    at = 0
    for heads in (_SOURCE, _SPLIT, _TEMPLATE, _NAME):
        value, at = _part(data, at, heads, Lengths(heads))
        if value is None:
            return None
        names.append(value.decode())
    return tuple(names)


def _values(data: bytes) -> tuple[str, ...]:
    """The values of a list."""
    values: list[str] = []
    at = 0
    while at < len(data):
        length = data[at + 1]
        length, start = (length, at + 2) if length < _ONE_BYTE else read_varint(data, at + 1)
        at = start + length
        values.append(data[start:at].decode())
    return tuple(values)


def _decode_any(data: bytes) -> DatasetRecord:
    """Of an Example by whatever writer."""
    features = decode_example(data)

    def values(name: str) -> list[bytes]:
        return [value for value in features[name] if isinstance(value, bytes)]

    return DatasetRecord(
        id=values("id")[0].decode(),
        template=values("template")[0].decode(),
        template_name=values("template_name")[0].decode(),
        source=values("source")[0].decode(),
        split=values("split")[0].decode(),
        text=values("text")[0].decode(),
        boxes=tuple(box.decode() for box in values("boxes")),
        image_key=values("image_key")[0].decode(),
        image=values("image")[0] if "image" in features else None,
    )
