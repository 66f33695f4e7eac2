"""What one record of a dataset holds: the features of its `tf.train.Example`, also shown in `docs/dataset.md`."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from dataset.examples import NotAnExample, decode_example, encode_example

SCHEMA_VERSION: Final = 1
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
    """`record` as the bytes of a `tf.train.Example`."""
    features: dict[str, Sequence[bytes]] = {
        "id": (record.id.encode(),),
        "template": (record.template.encode(),),
        "template_name": (record.template_name.encode(),),
        "source": (record.source.encode(),),
        "split": (record.split.encode(),),
        "text": (record.text.encode(),),
        "boxes": tuple(box.encode() for box in record.boxes),
        "image_key": (record.image_key.encode(),),
    }
    if record.image is not None:
        features["image"] = (record.image,)
    return encode_example(features)


def decode_record(data: bytes) -> DatasetRecord:
    """The record in the bytes of a `tf.train.Example`.

    Raises:
        NotAnExample: the bytes are no Example, or it lacks a feature of the schema.
    """
    features = decode_example(data)

    def values(name: str) -> list[bytes]:
        return [value for value in features[name] if isinstance(value, bytes)]

    try:
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
    except (KeyError, IndexError, UnicodeDecodeError) as error:
        raise NotAnExample(f"not a record of a dataset: {error!r}") from error
