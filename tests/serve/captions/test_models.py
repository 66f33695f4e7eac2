"""The model of a folder: picked up whole, however it gets there, and never mixed with the next one."""

import json
import shutil
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from memeloom.configs.load import load_config
from memeloom.configs.schema import Config
from memeloom.serve.captions import models
from memeloom.serve.captions.models import WatchedModel
from memeloom.serve.captions.served import folder_version
from memeloom.train.runtime import open_captioner
from tests.serve.random_model import write_random_model


def settings(folder: Path) -> Config:
    return load_config(options={"generate.model": str(folder), "serve.reload_seconds": 0.01}, environment={})


def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def in_use(watched: WatchedModel) -> str | None:
    return watched._loaded.served.version if watched._loaded else None


def test_a_model_whose_card_is_copied_first_is_loaded_when_the_rest_is_there(tmp_path: Path) -> None:
    """As `cp -r` and `rsync` may do."""
    whole = write_random_model(tmp_path / "whole", 3)
    folder = tmp_path / "model"
    folder.mkdir()
    shutil.copy(whole / "model.json", folder)
    watched = WatchedModel(settings(folder))
    watched.start()
    try:
        until(lambda: "cannot be read" in watched._why)
        for path in whole.iterdir():
            shutil.copy(path, folder)
        until(lambda: in_use(watched) == folder_version(whole))
    finally:
        watched.stop()


def test_attempts_to_load_a_damaged_model_get_rarer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_random_model(tmp_path, 3)
    (folder / "templates.json").write_text("[]")
    now, attempts = [1000.0], list[float]()

    def noted(path: Path) -> Any:
        attempts.append(now[0])
        return open_captioner(path)

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(models, "open_captioner", noted)
    watched = WatchedModel(settings(folder))
    for _ in range(40_000):
        watched._look()
        now[0] += 0.01
    pauses = [round(later - earlier, 2) for earlier, later in pairwise(attempts)]
    assert pauses[:3] == [0.01, 0.02, 0.04]
    assert 60 <= pauses[-1] < 61


def test_no_error_of_a_model_ends_the_watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_random_model(tmp_path, 3)
    failures = [ValueError("odd"), RuntimeError("a device"), MemoryError()]

    def fail_first(path: Path) -> Any:
        if failures:
            raise failures.pop()
        return open_captioner(path)

    monkeypatch.setattr(models, "open_captioner", fail_first)
    watched = WatchedModel(settings(folder))
    watched.start()
    try:
        until(lambda: in_use(watched) == folder_version(folder))
    finally:
        watched.stop()


def test_another_card_is_another_model(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path, 3)
    watched = WatchedModel(settings(folder))
    watched._look()
    first = in_use(watched)
    (folder / "model.json").write_text(json.dumps(json.loads((folder / "model.json").read_text()), indent=3))
    watched._look()
    assert in_use(watched) == folder_version(folder) != first
