"""Presets: settings that are asked for by name."""

from pathlib import Path

import pytest

from memeloom.configs.errors import ConfigError
from memeloom.configs.load import PRESETS, load_config


def test_presets_have_the_sizes_of_the_original_datasets() -> None:
    imgflip = load_config(Path("imgflip-48x20000"), environment={}).dataset
    assert (imgflip.templates, imgflip.captions_per_template, imgflip.min_captions_per_template) == (48, 20_000, 20_000)
    assert "language" not in imgflip.steps
    memefly = load_config(Path("memefly"), environment={}).dataset
    assert (memefly.templates, memefly.captions_per_template, memefly.min_captions_per_template) == (108, 195, 170)
    assert memefly.images == "template"


@pytest.mark.parametrize("path", sorted(PRESETS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_preset_is_a_valid_configuration_by_name_and_by_path(path: Path) -> None:
    assert load_config(path, environment={}) == load_config(Path(path.stem), environment={})


def test_a_file_of_that_name_comes_before_the_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("memefly").write_text("dataset: {templates: 5}")
    assert load_config(Path("memefly"), environment={}).dataset.templates == 5


def test_an_unknown_name_lists_the_presets() -> None:
    with pytest.raises(ConfigError, match=r"memfly: no such file, and no preset of that name; presets are .*memefly"):
        load_config(Path("memfly"), environment={})
    for path in ("configs/memefly", "memefly.yaml"):
        with pytest.raises(ConfigError, match="No such file"):
            load_config(Path(path), environment={})
