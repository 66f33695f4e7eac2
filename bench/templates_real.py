"""Real memes against all known templates: how many match, and whether a person agrees.

What each meme is made on was judged by eye: 100 of the 880, drawn by chance, one by one, and every pair that any
version of recognition ever proposed. Memes whose makers put another head on the template's body count as made on it.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from bench.rows import Row
from memeloom.configs.load import load_config
from memeloom.templates.index import SketchIndex
from memeloom.templates.sketch import Sketch, sketch_image

# Files without their suffix; templates by the file, the same picture under two names as a group.
_MADE_ON = {
    "propaganda950/176_image": {"disastergirl"},
    "propaganda950/178_image_batch_2": {"First-World-Problems"},
    "propaganda950/184_image_batch_2": {"Sparta-Leonidas"},
    "propaganda950/210_image_batch_2": {"jim"},
    "propaganda950/365_image_batch_2": {"Am-I-The-Only-One-Around-Here"},
    "propaganda950/39_image_batch_2": {"cmm"},
    "propaganda950/416_image_batch_2": {"interesting", "The-Most-Interesting-Man-In-The-World"},
    "propaganda950/436_image_batch_2": {"jim"},
    "propaganda950/599_image_batch_2": {"Face-You-Make-Robert-Downey-Jr"},
    "propaganda950/622_image_batch_2": {"And-everybody-loses-their-minds"},
    "propaganda950/659_image_batch_2": {"Captain-Picard-Facepalm", "facepalm"},
    "propaganda950/780_image_batch_2": {"officespace", "That-Would-Be-Great"},
    "propaganda950/985_image_batch_2": {"apcr"},
    "cm_memes_hinglish/meme_131": {"saltbae"},
}
_SAMPLE = 100


def real_memes(data: Path) -> Iterator[Row]:
    """Look every real meme up among the 254 template pictures of `data`, and hold the answers against a person's."""
    settings = load_config(environment={}).templates
    index = SketchIndex(settings.min_agreement)
    known = sorted(path for path in (data / "templates").glob("*/*.jpg") if path.stem != "_error")
    for path in known:
        index.add(path.stem, _sketch(path))
    memes = sorted(row["file"] for row in json.loads((data / "real_memes" / "manifest.json").read_text("utf-8")))
    found: dict[str, str] = {}
    began = time.process_time()
    for meme in memes:
        if matches := index.find(_sketch(data / "real_memes" / meme)):
            found[meme.rpartition(".")[0]] = matches[0].key
    seconds = time.process_time() - began
    right = [meme for meme, template in found.items() if template in _MADE_ON.get(meme, ())]
    sample = {meme.rpartition(".")[0] for meme in Random(5).sample(memes, _SAMPLE)}
    made = sample & _MADE_ON.keys()
    figures = {
        "memes": f"{len(memes)} against {len(known)} templates",
        "match": f"{len(found)}, all judged by eye: {len(right)} right, {len(found) - len(right)} wrong;"
        f" {len(_MADE_ON) - len(right)} of {len(_MADE_ON)} that a person knows of missed",
        "of 100 drawn by chance": f"{len(made)} are made on one, {len(made & set(right))} of them found,"
        f" {len(sample & found.keys() - set(right))} wrong",
        "images/cpu-s": f"{len(memes) / seconds:.0f}",
    }
    if wrong := {meme: template for meme, template in found.items() if meme not in right}:
        figures["wrong"] = ", ".join(f"{meme} as {template}" for meme, template in wrong.items())
    yield Row("real", "ours", figures, "looked at by eye")


def _sketch(path: Path) -> Sketch:
    return sketch_image(path.read_bytes())
