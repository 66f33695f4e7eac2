"""The card of a model states its facts, gains its evaluation, and is not rewritten after an edit."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from memeloom.configs.schema import Config
from memeloom.train.evaluation.stage import evaluate_models
from memeloom.train.fit import train_model
from memeloom.train.model_card import MARK, README


@pytest.fixture
def config(toy: Callable[..., Config], tmp_path: Path) -> Config:
    config = toy(tmp_path, model="ngram")
    train_model(config)
    return config


def card(config: Config) -> str:
    return (Path(config.train.output) / README).read_text()


def test_a_training_writes_the_facts_of_the_model(config: Config) -> None:
    metrics = json.loads((Path(config.train.output) / "metrics.json").read_text())
    text = card(config)
    front = yaml.safe_load(text.split("---\n")[1])
    assert front["library_name"] == "memeloom"
    assert front["license"] == "unknown"
    assert "ngram" in front["tags"]
    for fact in (
        f"{metrics['parameters']:,} parameters", f"{metrics['validation_loss']:.4f}",
        f"{metrics['validation_accuracy']:.4f}",
        "240 captions on 3 templates", metrics["dataset"], "| toy | 300 |", "## Limits", MARK,
    ):  # fmt: skip
        assert fact in text, fact
    assert "## Evaluation" not in text


def test_an_evaluation_adds_its_figures_and_a_later_one_replaces_them(config: Config, tmp_path: Path) -> None:
    changes = {"models": (config.train.output,), "dataset": config.train.dataset, "output": str(tmp_path / "report")}
    small = {"split": "validation", "captions": 20, "written": 5}
    evaluated = config.model_copy(update={"evaluate": config.evaluate.model_copy(update={**changes, **small})})
    before = card(config)
    evaluate_models(evaluated)
    text = card(config)
    assert text.startswith(before.rstrip())
    assert "bits per character" in text
    evaluate_models(evaluated)
    assert card(config).count("## Evaluation") == 1
    train_model(config)  # it is complete
    assert card(config).count("## Evaluation") == 1


def test_a_card_that_somebody_edited_stays(config: Config) -> None:
    own = "# My model\n"
    (Path(config.train.output) / README).write_text(own)
    train_model(config)
    assert card(config) == own
