"""Catalogs of the templates stage, and stages that work in this process."""

from collections import Counter
from pathlib import Path

import pytest

from memeloom.configs.load import load_config
from memeloom.configs.schema import Config, Store
from memeloom.templates import recover, stage, worker
from tests.in_process import work_in_process
from tests.templates.meme_catalog import MemeCatalog


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stages work in this process."""
    work_in_process(monkeypatch, worker)


@pytest.fixture
def unrecovered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs recover no pictures of templates, which takes three quarters of their time."""
    monkeypatch.setattr(stage, "recover_templates", lambda *_, **__: Counter[str]())


@pytest.fixture
def unsearched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recoveries fill parts that words cover in every meme without a search, which takes three quarters of the time."""
    monkeypatch.setattr(recover, "uncover", lambda merged, layers: merged)


@pytest.fixture
def config(store_config: Store, tmp_path: Path) -> Config:
    """Small batches, one worker, everything under `tmp_path`."""
    overrides = ["templates.batch=4", "engine.workers=1", f"runs={tmp_path}/runs"]
    return load_config(overrides=overrides, environment={}).model_copy(update={"store": store_config})


@pytest.fixture
def catalog(config: Config) -> MemeCatalog:
    """The catalog of `config`, empty."""
    return MemeCatalog(config)
