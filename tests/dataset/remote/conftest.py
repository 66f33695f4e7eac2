"""Datasets in a real object store."""

from collections.abc import Callable
from pathlib import Path

import pytest

from memeloom.configs.schema import Config, Store
from memeloom.dataset.remote.files import Place, RemoteFiles, place_at
from tests.dataset.builds import MakeConfig, changed

RemoteConfig = Callable[..., Config]


@pytest.fixture
def place(s3_store: Store) -> Place:
    """An empty folder in a fresh bucket."""
    return place_at(f"{s3_store.blobs.removesuffix('/blobs')}/sets/memes", s3_store)


@pytest.fixture
def remote_config(config: MakeConfig, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemoteConfig:
    """Make the usual settings, with the output at `place`, and this machine's copies in `tmp_path`."""
    monkeypatch.setenv("MEMELOOM_CACHE", str(tmp_path / "cache"))

    def make(**dataset: object) -> Config:
        return changed(config(output=place.address, **dataset), store={"s3": place.store.s3})

    return make


@pytest.fixture
def files(place: Place) -> Callable[[], dict[str, bytes]]:
    """Return the bytes of all files at `place` by name."""

    def read() -> dict[str, bytes]:
        there = RemoteFiles(place)
        return {name: there.read(name) or b"" for name in there.names()}

    return read
