"""A dataset with pictures: each template has its own, and words that go with it."""

import io
import random
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from memeloom.configs.schema import Config
from memeloom.dataset.formats.tfrecord import RecordWriter, TFRecordPictures, read_records
from memeloom.dataset.manifest import Manifest, PictureFile, file_sha256
from memeloom.dataset.schema import EMBEDDED, Picture, decode_record, encode_record
from memeloom.train.fit import train_model

WORDS = {
    "61533": (("red", "scarlet"), ("roses", "fire")),
    "one-does-not-simply": (("green",), ("grass", "frogs", "leaves")),
    "8072285": (("wow",), ("such", "very"), ("blue", "sky")),
}


def drawn(template: str) -> NDArray[np.uint8]:
    """The picture of a template: a pattern of its own, RGB (90, 120, 3)."""
    rng = np.random.default_rng(int(sha256(template.encode()).hexdigest()[:8], 16))
    return rng.integers(0, 256, (3, 4, 3), np.uint8).repeat(30, axis=0).repeat(30, axis=1)


def png(pixels: NDArray[np.uint8]) -> bytes:
    """The bytes of a PNG file."""
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def captions(count: int, seed: int) -> list[tuple[str, tuple[str, ...]]]:
    """Captions of a language in which every word but a few depends on the picture."""
    rng = random.Random(seed)
    ids = list(WORDS)
    return [(ids[at % 3], tuple(map(rng.choice, WORDS[ids[at % 3]]))) for at in range(count)]


def with_pictures(folder: Path, manifest: Manifest, images: str = "template", broken: bool = False) -> Manifest:
    """The dataset in `folder`, written by `write_dataset`, with the pictures of its templates.

    They are in the records, or with images="template" in a file of their own.
    """
    shards, pictures = [], {}
    for shard in manifest.shards:
        path = folder / shard.name
        records = [decode_record(payload) for payload in read_records(path)]
        path.unlink()
        with RecordWriter(path) as writer:
            for record in records:
                image = png(drawn(record.template))
                kept = image[:-40] if broken else image
                key = sha256(kept).hexdigest()
                pictures[key] = kept
                inside = kept if images in EMBEDDED else None
                writer.append(encode_record(record._replace(image_key=key, image=inside)))
        size = path.stat().st_size
        shards.append(shard.model_copy(update={"bytes": size, "sha256": file_sha256(path)}))
    changed = manifest.model_copy(update={"images": images, "shards": tuple(shards)})
    if images not in EMBEDDED:
        with TFRecordPictures(folder / "pictures-00000-of-00001.tfrecord.gz", "gzip") as file:
            for key, data in pictures.items():
                file.write(Picture(key, data))
        listed = PictureFile(name=file.path.name, bytes=file.bytes, sha256=file.sha256, pictures=len(pictures))
        changed = changed.model_copy(update={"picture_files": (listed,)})
    changed.write(folder)
    return changed


def train_on_pictures(
    folder: Path,
    toy: Callable[..., Config],
    write_dataset: Callable[..., Manifest],
    images: str = "template",
    **changes: Any,
) -> Config:
    """Train on 240 captions with pictures, with a `small_encoder`. changes: of the train section, as of `toy`."""
    # The training captions lack one template.
    rows = {"train": captions(240, 1), "validation": [*captions(60, 2), ("424242", ("such", "sky"))]}
    with_pictures(folder / "dataset", write_dataset(folder / "dataset", rows), images)
    encoder = {"pictures__weights": "none", "pictures__side": 75, "pictures__vectors": folder / "vectors"}
    config = toy(folder, **encoder, **changes)
    train_model(config)
    return config
