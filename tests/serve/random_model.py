"""The folder of a causal model with random counts and weights, written without Keras: it writes gibberish at once."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from memeloom.configs.outputs import write_json
from memeloom.dataset.manifest import file_sha256
from memeloom.train.causal.decoding import CHAINS, COUNTS, MOST_BOXES, VOCABULARY, depths_of
from memeloom.train.causal.runtime import WEIGHTS
from memeloom.train.characters import Alphabet
from memeloom.train.model_folder import CARD, KIND, VERSION, write_content
from memeloom.train.ngram.chains import count, stored_chains
from memeloom.train.ngram.contexts import Context, Spelling
from memeloom.train.ngram.table import Table
from memeloom.train.ngram.text import Text

LETTERS = "e toanishrdlu|"
_UNITS, _HIDDEN = 8, 8
_CONTEXTS = (Context(), Context(characters=1)), (Context(), Context(characters=2, template=True))


def write_random_model(folder: Path, templates: int, seed: int = 1) -> Path:
    """Write a model that knows the templates "0", "1" …, of two boxes each; return its folder."""
    rng = np.random.default_rng(seed)

    def drawn(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return rng.normal(0, 0.3, shape).astype(np.float32)

    letters, table = len(LETTERS), _counted(rng, templates)
    depths = depths_of(table)
    block = {
        "norm": drawn(_UNITS), "take": drawn(_UNITS, _UNITS), "take bias": drawn(_UNITS),
        **{name: drawn(_UNITS, _UNITS) for name in ("new", "show", "out")},
        "norm 2": drawn(_UNITS), "up": drawn(_UNITS, _HIDDEN), "gate": drawn(_UNITS, _HIDDEN),
        "down": drawn(_HIDDEN, _UNITS),
    }  # fmt: skip
    weights = {
        "character": drawn(1 + letters, _UNITS), "template": drawn(1 + templates, _UNITS),
        "box": drawn(MOST_BOXES, _UNITS), "last": drawn(_UNITS),
        # Boxes end after a few letters.
        "leave": drawn(_UNITS, letters), "leave bias": drawn(letters) + np.eye(letters, dtype=np.float32)[-1],
        "trust": drawn(_UNITS, len(depths)), "trust bias": drawn(len(depths)), "known": drawn(sum(depths), len(depths)),
        **{f"0 {name}": value for name, value in block.items()},
    }  # fmt: skip
    known: list[dict[str, Any]] = [
        {"id": str(n), "name": f"Template {n}", "slug": f"template-{n}", "captions": 1, "boxes": 2, "box_count": None,
         "geometry": [], "image_key": None}
        for n in range(templates)
    ]  # fmt: skip
    contents = {
        VOCABULARY: list(LETTERS), CHAINS: stored_chains(table), COUNTS: table.columns, WEIGHTS: weights,
        "templates.json": known, "metrics.json": {}, "config.yaml": {},
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        write_content(folder / name, content)
    card = {
        "kind": KIND, "version": VERSION, "model": "causal", "networks": [], "content": [VOCABULARY, CHAINS, COUNTS],
        "settings": {"separator": "|", "learned": list(range(templates))},
        "files": {name: file_sha256(folder / name) for name in contents},
    }  # fmt: skip
    write_json(folder / CARD, json.loads(json.dumps(card)))
    return folder


def _counted(rng: np.random.Generator, templates: int) -> Table:
    """Count 50 captions of 20 random letters."""
    captions, length = 50, 20
    text = Text(
        rng.integers(1, 1 + len(LETTERS), captions * length).astype(np.uint16),
        np.arange(captions + 1) * length,
        rng.integers(1, 1 + templates, captions),
        Spelling.of(Alphabet(tuple(LETTERS)), "|"),
    )
    return count(text, chains=_CONTEXTS)
