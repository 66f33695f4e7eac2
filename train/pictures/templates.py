"""The vectors of templates, and of the pictures that prompts bring; without Keras."""

from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from memeloom.dataset.manifest import DatasetTemplate
from memeloom.train.contract import Prompt


class PictureEncoder(Protocol):
    """Encodes RGB pictures, uint8 (height, width, 3), as vectors of `size` numbers."""

    @property
    def size(self) -> int:
        """Length of a vector."""
        ...

    def vectors(self, pictures: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Return the vectors, (pictures, size)."""
        ...


E = TypeVar("E", bound=PictureEncoder)


class TemplatePictures(Generic[E]):
    """The vectors of templates and of prompts' pictures.

    vectors: of `templates`, float32 (templates, size). Raises ValueError if the shape is another.
    """

    def __init__(self, encoder: E, templates: Sequence[DatasetTemplate], vectors: NDArray[np.float32]) -> None:
        if vectors.shape != (len(templates), encoder.size):
            raise ValueError("its parts do not fit together")
        self.encoder, self.vectors = encoder, vectors
        self._mean = vectors.mean(axis=0)
        self._rows = {template.id: row for row, template in enumerate(templates)}

    def of_templates(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """Return the vectors of templates by row, (rows, size); the mean for unknown rows."""
        known = (rows >= 0) & (rows < len(self.vectors))
        found: NDArray[np.float32] = self.vectors[np.where(known, rows, 0)]
        found[~known] = self._mean
        return found

    def of_prompts(self, prompts: Sequence[Prompt]) -> NDArray[np.float32]:
        """Return the vectors of the prompts' pictures, or else of their templates, (prompts, size)."""
        vectors = self.of_templates(np.array([self._rows.get(prompt.template.id, -1) for prompt in prompts]))
        seen = {id(prompt.picture): prompt.picture for prompt in prompts if prompt.picture is not None}
        known = dict(zip(seen, self.encoder.vectors(list(seen.values())), strict=True)) if seen else {}
        for row, prompt in enumerate(prompts):
            if prompt.picture is not None:
                vectors[row] = known[id(prompt.picture)]
        return vectors
