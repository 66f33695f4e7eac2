"""All that an evaluation found, as it stands in `metrics.json` and as the reports show it."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from memeloom.dataset.schema import Split
from memeloom.train.evaluation.likelihood import Likelihood
from memeloom.train.evaluation.sweep import CaptionSetMetrics

_VERSION = 1
_PERPLEXITIES = ("perplexity_per_token", "perplexity_per_character")


@dataclass(frozen=True, slots=True)
class Trained:
    """How a model came to be, as its folder tells it; None where it does not.

    seconds: of training until the weights that were kept. device, backend: what it was trained on, and with.
    dataset: digest of what it learned from. commit: of the code that trained it.
    """

    seconds: float | None
    device: str | None
    backend: str | None
    dataset: str | None
    commit: str | None

    @property
    def on(self) -> str:
        """Device and backend, as far as they are known."""
        return ", ".join(each for each in (self.device, self.backend) if each)


@dataclass(frozen=True, slots=True)
class ModelResult:
    """What was found about a model.

    name: the one of its folder. unit: what its tokens are. sweep: figures of what it writes, by temperature.
    """

    name: str
    folder: str
    kind: str
    unit: str
    parameters: int
    trained: Trained
    likelihood: Likelihood
    sweep: Mapping[float, CaptionSetMetrics]


@dataclass(frozen=True, slots=True)
class Results:
    """What was found about all models.

    digest: of the dataset. templates: that the captions stand on. real: figures of held-out captions, through the
    measures of what models write; None if nothing was written. models: fewest bits per character first.
    """

    dataset: str
    digest: str
    split: Split
    captions: int
    characters: int
    templates: int
    seed: int
    commit: str
    real: CaptionSetMetrics | None
    models: tuple[ModelResult, ...]

    def as_json(self) -> dict[str, Any]:
        """For `metrics.json`.

        Temperatures are numbers in a list, for JSON has no numbers as keys; infinite perplexities are null, for it has
        none of those.
        """
        found = asdict(self)
        for model in found["models"]:
            likelihood = model["likelihood"]
            likelihood |= {name: None for name in _PERPLEXITIES if math.isinf(likelihood[name])}
            model["sweep"] = [{"temperature": at, **figures} for at, figures in model["sweep"].items()]
        return {"version": _VERSION, **found}
