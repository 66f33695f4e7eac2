"""What a model that looks at pictures knows its templates by."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memeloom.dataset.manifest import DatasetTemplate
from memeloom.train.contract import Prompt
from memeloom.train.pictures.encoder import Encoder

# A number that hardly differs between pictures would be noise once it is scaled.
_LEAST_SPREAD = 0.1


class Gallery:
    """The vectors of templates, and of whatever picture is shown.

    vectors: of the pictures of `templates`, float32 (templates, size).

    Raises:
        ValueError: they do not fit together.
    """

    def __init__(self, encoder: Encoder, templates: Sequence[DatasetTemplate], vectors: NDArray[np.float32]) -> None:
        if vectors.shape != (len(templates), encoder.size):
            raise ValueError("its parts do not fit together")
        self.encoder, self.vectors = encoder, vectors
        self._rows = {template.id: row for row, template in enumerate(templates)}

    def of_templates(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """Of templates by row, (rows, size); a row that there is none of is the mean of all."""
        known = (rows >= 0) & (rows < len(self.vectors))
        found: NDArray[np.float32] = self.vectors[np.where(known, rows, 0)]
        found[~known] = self.vectors.mean(axis=0)
        return found

    def of_prompts(self, prompts: Sequence[Prompt]) -> NDArray[np.float32]:
        """Of each prompt's picture, (prompts, size); where there is none, of its template."""
        vectors = self.of_templates(np.array([self._rows.get(prompt.template.id, -1) for prompt in prompts]))
        seen = {id(prompt.picture): prompt.picture for prompt in prompts if prompt.picture is not None}
        known = dict(zip(seen, self.encoder.vectors(list(seen.values())), strict=True)) if seen else {}
        for row, prompt in enumerate(prompts):
            if prompt.picture is not None:
                vectors[row] = known[id(prompt.picture)]
        return vectors


def statistics(vectors: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean and variance by which the numbers of `vectors`, (pictures, size), are scaled; both (size,)."""
    mean = vectors.mean(axis=0, dtype=np.float64)
    variance = vectors.astype(np.float32).var(axis=0, dtype=np.float64)
    typical = float(variance.mean()) or 1.0
    return mean.astype(np.float32), np.maximum(variance, typical * _LEAST_SPREAD**2).astype(np.float32)
