"""What a kind's runtime reads of a model folder, or of an export of it, without Keras."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memeloom.dataset.manifest import DatasetTemplate

# The network of pictures of an export.
ENCODER = "encoder.onnx"
_ARRAY, _ARRAYS = ".npy", ".npz"


@dataclass(frozen=True, slots=True)
class RuntimeParts:
    """The parts of a model. files: sha256 of each file of the folder, by name. settings: as the kind wrote them."""

    folder: Path
    settings: Mapping[str, Any]
    files: Mapping[str, str]
    templates: tuple[DatasetTemplate, ...]

    def content(self, name: str) -> Any:
        """Return what the file `name` holds, in memory: a mapped file that is written over would kill the process.

        Raises:
            KeyError: the model has no such file.
            Exception: it is damaged; NumPy, zipfile and json have many.
        """
        if name not in self.files:
            raise KeyError(name)
        return read_content(self.folder / name)


def read_content(path: Path) -> Any:
    """Return an array (``.npy``), arrays by name (``.npz``), or a JSON value."""
    if path.suffix == _ARRAY:
        # `np.load` would accept an archive of arrays, too.
        with path.open("rb") as stream:
            return np.lib.format.read_array(stream, allow_pickle=False)
    if path.suffix == _ARRAYS:
        # `np.load` would leave the file of a broken archive open.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            return dict(arrays)
    return json.loads(path.read_text(encoding="utf-8"))
