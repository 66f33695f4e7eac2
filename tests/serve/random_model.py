"""The folder of a causal model with random weights, written without Keras: it writes gibberish at once."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from memeloom.configs.outputs import write_json
from memeloom.dataset.manifest import file_sha256
from memeloom.train.causal.contexts import table_rows
from memeloom.train.causal.runtime import TABLE, WEIGHTS
from memeloom.train.model_folder import CARD, KIND, VERSION, write_content

LETTERS = "e toanishrdlu|"
_BITS, _WIDTH, _UNITS, _HIDDEN = 6, 4, 8, 8


def write_random_model(folder: Path, templates: int, seed: int = 1) -> Path:
    """Write a model that knows the templates "0", "1" …, of two boxes each; return its folder."""
    rng = np.random.default_rng(seed)

    def drawn(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return rng.normal(0, 0.3, shape).astype(np.float32)

    letters, wide = len(LETTERS), 16 * _WIDTH
    block = {
        "norm": drawn(_UNITS), "take": drawn(_UNITS, _UNITS), "take bias": drawn(_UNITS),
        **{name: drawn(_UNITS, _UNITS) for name in ("new", "show", "out")},
        "norm 2": drawn(_UNITS), "up": drawn(_UNITS, _HIDDEN), "gate": drawn(_UNITS, _HIDDEN),
        "down": drawn(_HIDDEN, _UNITS),
    }  # fmt: skip
    weights = {
        "enter": drawn(wide, _UNITS), "skip": drawn(wide, letters), "last": drawn(_UNITS),
        "leave": drawn(_UNITS, letters), "leave bias": drawn(letters),
        **{f"0 {name}": value for name, value in block.items()},
    }  # fmt: skip
    known: list[dict[str, Any]] = [
        {"id": str(n), "name": f"Template {n}", "slug": f"template-{n}", "captions": 1, "boxes": 2, "box_count": None,
         "geometry": [], "image_key": None}
        for n in range(templates)
    ]  # fmt: skip
    contents = {
        TABLE: drawn(table_rows(_BITS, letters), _WIDTH), WEIGHTS: weights, "vocabulary.json": list(LETTERS),
        "templates.json": known, "metrics.json": {}, "config.yaml": {},
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        write_content(folder / name, content)
    card = {
        "kind": KIND, "version": VERSION, "model": "causal", "networks": [], "content": ["vocabulary.json"],
        "settings": {"separator": "|", "bits": _BITS, "learned": list(range(templates))},
        "files": {name: file_sha256(folder / name) for name in contents},
    }  # fmt: skip
    write_json(folder / CARD, json.loads(json.dumps(card)))
    return folder
