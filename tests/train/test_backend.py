"""Keras is imported without what it would import and nobody here uses."""

import importlib
import sys
from pathlib import Path

import pytest

from memeloom.train.backend import _hidden, _uses_jax


def test_packages_are_hidden_while_others_are_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with _hidden("colorsys", "json"):
        assert importlib.import_module("json") is sys.modules["json"], "it was imported before"
        with pytest.raises(ImportError):
            importlib.import_module("colorsys")
    assert importlib.import_module("colorsys").rgb_to_hsv


def test_jax_is_not_hidden_from_those_who_use_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    assert not _uses_jax()
    (tmp_path / "keras.json").write_text('{"floatx": "float32", "backend": "jax"}')
    assert _uses_jax()
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    assert not _uses_jax()
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    assert _uses_jax()
