"""A dataset with pictures: each template has its own, and words that go with it; and what a model learns of it."""

import io
import random
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from memeloom.configs.progress import Silent
from memeloom.configs.schema import Config
from memeloom.dataset.formats.tfrecord import RecordWriter, read_records
from memeloom.dataset.manifest import Manifest, file_sha256
from memeloom.dataset.schema import decode_record, encode_record
from memeloom.train.contract import Captioner, CaptionScores, Prompt
from memeloom.train.corpus import Captions
from memeloom.train.decoding.sampling import greedily, write_captions
from memeloom.train.generate import GeneratedCaption, generate_captions

WORDS = {
    "61533": (("red", "scarlet"), ("roses", "fire")),
    "one-does-not-simply": (("green",), ("grass", "frogs", "leaves")),
    "8072285": (("wow",), ("such", "very"), ("blue", "sky")),
}


def drawn(template: str) -> NDArray[np.uint8]:
    """The picture of a template: a pattern of its own, RGB (90, 120, 3)."""
    rng = np.random.default_rng(int(sha256(template.encode()).hexdigest()[:8], 16))
    tiles = rng.integers(0, 256, (3, 4, 3), np.uint8)
    return np.kron(tiles, np.ones((30, 30, 1), np.uint8)).astype(np.uint8)


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


def check_words_of_pictures(model: Captioner) -> None:
    """Greedily, for the pictures alone: the template is one that the model never heard of."""
    for template in model.templates:
        unheard = template.model_copy(update={"id": "unheard"})
        prompt = Prompt(unheard, picture=drawn(template.id).repeat(2, axis=0))
        (made,) = write_captions(model, [prompt], greedily, max_characters=60, rng=np.random.default_rng(1))
        assert len(made.texts) == len(WORDS[template.id])
        assert all(text in known for text, known in zip(made.texts, WORDS[template.id], strict=True))


def check_likelihood_by_pictures(model: Captioner, check: Captions) -> CaptionScores:
    """Captions are likelier for their own pictures than for others, alone as together; what was found for their own."""
    right = model.score(check, 0, len(check))
    moved = (check.templates + 1) % len(model.templates)
    wrong = model.score(Captions(check.characters, check.boxes, check.starts, moved, check.prefixes), 0, len(check))
    assert (right.log_likelihood > wrong.log_likelihood).all()
    np.testing.assert_allclose(model.score(check, 7, 9).log_likelihood, right.log_likelihood[7:9], rtol=1e-4)
    return right


def captions_for_file(config: Config, path: Path) -> list[GeneratedCaption]:
    """Two captions of the trained model for the picture in a file."""
    settings = {"model": config.train.output, "image": str(path), "captions": 2, "method": "beam"}
    generate = config.generate.model_copy(update=settings)
    return generate_captions(config.model_copy(update={"generate": generate}), Silent())


def with_pictures(folder: Path, manifest: Manifest, images: str = "template", broken: bool = False) -> Manifest:
    """The dataset in `folder`, written by `write_dataset`, with the pictures of its templates in the records."""
    shards = []
    for shard in manifest.shards:
        path = folder / shard.name
        records = [decode_record(payload) for payload in read_records(path)]
        path.unlink()
        with RecordWriter(path) as writer:
            for record in records:
                image = png(drawn(record.template))
                key = sha256(image).hexdigest()
                kept = image[:-40] if broken else image
                writer.write(encode_record(record._replace(image_key=key, image=kept)))
        size = path.stat().st_size
        shards.append(shard.model_copy(update={"bytes": size, "sha256": file_sha256(path)}))
    changed = manifest.model_copy(update={"images": images, "shards": tuple(shards)})
    changed.write(folder)
    return changed
