"""Settings, a small model, and requests for its captions."""

import pytest

from memeloom.configs.load import load_config
from memeloom.configs.schema import Config
from memeloom.serve.captions.request import CaptionRequest
from tests.train.writing_table import TableCaptioner

WORDS = ("|", " so", " very", " much", " wow", " shit")


@pytest.fixture(scope="session")
def config() -> Config:
    return load_config(environment={})


@pytest.fixture(scope="module")
def model() -> TableCaptioner:
    return TableCaptioner.drawn(WORDS, seed=3, names=("61533", "8072285"))


def request(config: Config, template: str = "61533", **changes: object) -> CaptionRequest:
    best_of = changes.pop("best_of", changes.get("captions", 1))
    assert isinstance(best_of, int)
    settings = config.generate.model_copy(update={"method": "sample", "captions": 1, **changes})
    return CaptionRequest(template, settings, best_of)
