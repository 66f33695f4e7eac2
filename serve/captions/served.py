"""A model as requests see it: its version, its templates by name, and its word filter, worked out once."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from memeloom.configs.schema import Dataset
from memeloom.dataset.manifest import DatasetTemplate
from memeloom.serve.captions.errors import UnknownModel
from memeloom.train.contract import CaptionWriter
from memeloom.train.decoding.draft import WordFilter
from memeloom.train.generate import templates_by_text
from memeloom.train.ranking.ranker import Ranker
from memeloom.train.runtime import model_version

# Digits of the sha256 that tell versions apart.
_VERSION_DIGITS = 16


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model and what requests are checked against.

    kind: of the model. by_name: the templates that it learned, by id, slug and name, folded. known_ids: their ids.
    ranker: chooses among captions; None if the model has none.
    """

    model: CaptionWriter
    kind: str
    version: str
    word_filter: WordFilter
    by_name: Mapping[str, DatasetTemplate]
    known_ids: frozenset[str]
    ranker: Ranker | None = None

    @classmethod
    def of(cls, model: CaptionWriter, version: str, words: Dataset, ranker: Ranker | None = None) -> "ServedModel":
        """Return a model with its tables. words: the word lists that `safe` refuses."""
        known = frozenset(template.id for template in model.templates)
        by_name = templates_by_text(model.templates, str.casefold)
        return cls(model, model.kind, version, WordFilter.of(words, model), by_name, known, ranker)

    def find(self, name: str) -> DatasetTemplate | None:
        """Return the template with this id, slug or name; None if the model has not learned it."""
        return self.by_name.get(name.casefold())

    def check_name(self, name: str | None) -> None:
        """Check the name of a model: its kind or version. Raises UnknownModel."""
        if name is not None and name not in (self.kind, self.version):
            there = f"{self.kind!r}, version {self.version!r}"
            raise UnknownModel("model", f"no such model: {name[:100]!r} (there is {there})")


def folder_version(folder: Path) -> str:
    """Return the version of the model in `folder`. Raises NotAModel."""
    return model_version(folder)[:_VERSION_DIGITS]
