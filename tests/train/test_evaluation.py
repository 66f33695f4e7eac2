"""Models are judged by captions that they never saw, in figures that a hand can check, and the reports tell them."""

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from click.testing import CliRunner

from cli.main import cli
from configs.errors import MemeloomError
from configs.load import load_config
from configs.progress import Silent
from configs.schema import Config
from dataset.manifest import Manifest
from tests.html_page import Page
from train.characters import Alphabet
from train.convnet.model import ConvnetCaptioner
from train.convnet.network import build_convnet
from train.evaluation.held_out import as_seen_by, dataset_digest, read_held_out, rows_of
from train.evaluation.likelihood import UNICODE_CHARACTERS
from train.evaluation.stage import evaluate_models
from train.model_folder import NotAModel, write_model

# Keras 3.15 asks TensorFlow's tensors for arrays in the manner of NumPy 1.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")
Rows: TypeAlias = list[tuple[str, tuple[str, ...]]]
WriteDataset: TypeAlias = Callable[..., Manifest]

TRAIN: Rows = [("1", ("make", f"all the memes {word}")) for word in ("now", "again", "today")] * 10
TRAIN += [("2", ("one does not simply", f"walk into {place}")) for place in ("work", "bed", "school", "a bar")] * 8
TEST: Rows = [("1", ("make", f"all the {what} {when}")) for what in ("memes", "bugs") for when in ("now", "later")]
TEST += [("2", ("one does not simply", f"{what} it")) for what in ("walk", "read", "like", "want")]
TEXTS = ["".join(f"{box}|" for box in boxes) for _, boxes in TEST]


@pytest.fixture
def data(tmp_path: Path, write_dataset: WriteDataset) -> Manifest:
    """A dataset in `tmp_path`/dataset."""
    return write_dataset(tmp_path / "dataset", {"train": TRAIN, "validation": TEST[:2], "test": TEST})


def blind_model(
    folder: Path, manifest: Manifest, weights: Mapping[str, float], separator: str = "|", **metrics: Any
) -> ConvnetCaptioner:
    """Writes a model into `folder` that gives each character this share of its belief, whatever stands before it."""
    alphabet = Alphabet.of(sorted(weights))
    network = build_convnet(len(alphabet), filters=2, embedding=2, sequence_length=40, dropout=0, seed=1)
    kernel, _ = network.layers[-1].get_weights()
    beliefs = np.array([math.log(max(weights.get(each, 0.0), 1e-9)) for each in alphabet.characters])
    network.layers[-1].set_weights([np.zeros_like(kernel), beliefs.astype(np.float32)])
    model = ConvnetCaptioner(network, alphabet, manifest.templates, separator)
    write_model(folder, model, metrics, load_config(None, (), {}))
    return model


def shares(texts: Sequence[str]) -> dict[str, float]:
    counted = Counter("".join(texts))
    return {character: count / counted.total() for character, count in counted.items()}


def settings(folder: Path, models: Sequence[str], **changes: Any) -> Config:
    given = {
        "dataset": folder / "dataset", "output": folder / "report", "written": 6, "temperatures": "[0.5, 1]",
        "models": json.dumps([str(folder / model) for model in models]), **changes,
    }  # fmt: skip
    return load_config(None, [f"evaluate.{key}={value}" for key, value in given.items()], {})


def evaluated(folder: Path, models: Sequence[str], **changes: Any) -> dict[str, Any]:
    """What `metrics.json` says, without what a clock says."""
    evaluate_models(settings(folder, models, **changes), Silent())
    found: dict[str, Any] = json.loads((folder / "report" / "metrics.json").read_text())
    for model in found["models"]:
        assert model["likelihood"].pop("seconds") > 0
        for figures in model["sweep"]:
            assert figures.pop("captions_per_second") > 0
    return found


def test_the_figures_of_a_blind_model_are_those_of_its_belief(tmp_path: Path, data: Manifest) -> None:
    belief = shares(TEXTS)
    blind_model(tmp_path / "blind", data, belief)
    found = evaluated(tmp_path, ["blind"], written=0)["models"][0]["likelihood"]
    said = "".join(TEXTS)
    bits = -sum(math.log2(belief[character]) for character in said) / len(said)
    assert found["bits_per_character"]["value"] == pytest.approx(bits, rel=1e-5)
    assert found["perplexity_per_character"] == pytest.approx(2**bits, rel=1e-5)
    assert found["loss_per_token"] == pytest.approx(bits * math.log(2), rel=1e-5)
    assert found["perplexity_per_token"] == pytest.approx(2**bits, rel=1e-5)
    assert found["accuracy"]["value"] == pytest.approx(max(belief.values()))
    assert (found["captions"], found["characters"], found["tokens"]) == (8, len(said), len(said))
    for name in ("bits_per_character", "accuracy"):
        assert found[name]["low"] < found[name]["value"] < found[name]["high"]
    assert found["unknown_characters"] == 0


def test_templates_are_told_from_the_likeliest_to_the_least(tmp_path: Path, data: Manifest) -> None:
    belief = shares(TEXTS)
    blind_model(tmp_path / "blind", data, belief)
    found = evaluated(tmp_path, ["blind"], written=0)["models"][0]["likelihood"]
    bits = {
        name: -sum(math.log2(belief[each]) for each in said) / len(said)
        for name, said in (("1", "".join(TEXTS[:4])), ("2", "".join(TEXTS[4:])))
    }
    (best,), (worst,) = found["best"], found["worst"]
    assert [best["name"], worst["name"]] == sorted(bits, key=lambda name: bits[name])
    assert best["bits_per_character"] == pytest.approx(min(bits.values()), rel=1e-5)
    assert best["captions"] == worst["captions"] == 4


def test_what_a_model_does_not_know_is_spelled(tmp_path: Path, data: Manifest) -> None:
    poor = {character: share for character, share in shares(TEXTS).items() if character != "k"}
    whole = sum(poor.values())
    blind_model(tmp_path / "poor", data, poor)
    found = evaluated(tmp_path, ["poor"], written=0)["models"][0]["likelihood"]
    said = "".join(TEXTS)
    unknown, known = said.count("k"), len(Alphabet.of(sorted(poor)))
    assert 0 < unknown == found["unknown_characters"]
    often = (unknown + 0.5) / (len(said) + 1)
    bits = -sum(math.log2(poor[each] / whole) + math.log2(1 - often) for each in said if each != "k")
    bits += unknown * (math.log2(UNICODE_CHARACTERS - known) - math.log2(often))
    assert found["bits_per_character"]["value"] == pytest.approx(bits / len(said), rel=1e-5)
    assert found["tokens"] == len(said)
    assert found["accuracy"]["value"] == pytest.approx(max(said.count(each) for each in poor) / len(said))
    assert "poor does not know" in (tmp_path / "report" / "report.html").read_text()


def test_knowing_fewer_characters_never_helps(tmp_path: Path, data: Manifest) -> None:
    rich = shares(TEXTS)
    rare = min(rich, key=lambda each: (rich[each], each))
    blind_model(tmp_path / "rich", data, rich)
    blind_model(tmp_path / "poor", data, {each: share for each, share in rich.items() if each != rare})
    first, second = evaluated(tmp_path, ["poor", "rich"], written=0)["models"]
    assert (first["name"], second["name"]) == ("rich", "poor")
    assert first["likelihood"]["behind_best"] is None
    behind = second["likelihood"]["behind_best"]
    assert 0 < behind["low"] <= behind["value"] <= behind["high"]


def test_models_that_say_the_same_are_not_behind_each_other(tmp_path: Path, data: Manifest) -> None:
    for name in ("one", "other"):
        blind_model(tmp_path / name, data, shares(TEXTS))
    second = evaluated(tmp_path, ["one", "other"], written=0)["models"][1]
    assert second["likelihood"]["behind_best"] == {"value": 0, "low": 0, "high": 0}


def test_a_model_with_another_separator_sees_its_own(tmp_path: Path, data: Manifest) -> None:
    model = blind_model(tmp_path / "model", data, {"/" if each == "|" else each: 1.0 for each in shares(TEXTS)}, "/")
    held = read_held_out(tmp_path / "dataset", "test", None, 1)
    seen, unknown = as_seen_by(model, held)
    assert list(seen.texts(model.alphabet)) == [text.replace("|", "/") for text in TEXTS]
    assert unknown.tolist() == [0] * len(TEXTS)


def test_what_ends_a_box_for_the_model_is_no_character_of_a_text(tmp_path: Path, data: Manifest) -> None:
    model = blind_model(tmp_path / "model", data, dict.fromkeys(shares(TEXTS), 1.0), "e")
    held = read_held_out(tmp_path / "dataset", "test", None, 1)
    seen, unknown = as_seen_by(model, held)
    assert list(seen.texts(model.alphabet)) == [text.replace("e", "").replace("|", "e") for text in TEXTS]
    assert unknown.tolist() == [text.count("e") for text in TEXTS]


def test_templates_are_those_of_the_model_and_strangers_stand_behind(
    tmp_path: Path, data: Manifest, write_dataset: WriteDataset
) -> None:
    model = blind_model(tmp_path / "model", data, shares(TEXTS))
    write_dataset(
        tmp_path / "other", {"train": TRAIN, "test": [("new", ("a", "b")), ("2", ("c", "d")), ("new", ("", "e"))]}
    )
    seen, _ = as_seen_by(model, read_held_out(tmp_path / "other", "test", None, 1))
    ids = [*(template.id for template in model.templates), "new"]
    assert [ids[row] for row in seen.templates] == ["new", "2", "new"]
    assert (seen.prefixes == model.alphabet.prefixes(ids, seen.prefixes.shape[1])).all()


def test_rows_are_taken_in_their_order(tmp_path: Path, data: Manifest) -> None:
    held = read_held_out(tmp_path / "dataset", "test", None, 1)
    picked = rows_of(held.captions, np.array([6, 0, 6]))
    assert list(picked.texts(held.alphabet)) == [TEXTS[6], TEXTS[0], TEXTS[6]]
    assert picked.boxes.tolist() == [
        text[:at].count("|") for text in (TEXTS[6], TEXTS[0], TEXTS[6]) for at in range(len(text))
    ]


def test_a_seed_draws_the_same_captions_and_another_does_not(tmp_path: Path, data: Manifest) -> None:
    first, again, other = (
        list(held.captions.texts(held.alphabet))
        for held in (read_held_out(tmp_path / "dataset", "test", 3, seed) for seed in (1, 1, 4))
    )
    assert first == again != other
    assert len(first) == 3
    assert set(first) < set(TEXTS)


def test_what_is_written_goes_through_the_measures(tmp_path: Path, data: Manifest) -> None:
    # It writes bars and nothing else, so all is empty; the real captions are as they are.
    blind_model(tmp_path / "mute", data, {"|": 1.0, "a": 1e-9})
    found = evaluated(tmp_path, ["mute"], written=8)
    assert [figures["temperature"] for figures in found["models"][0]["sweep"]] == [0.5, 1]
    assert all(figures["empty"] == 1 and figures["cut"] == 0 for figures in found["models"][0]["sweep"])
    real = found["real"]
    assert (real["captions"], real["empty"], real["repeated"]) == (8, 0, 0)
    assert real["recognised"] == 1
    # "make|all the memes now|" alone stands in training.
    assert real["verbatim"] == real["on_template"] == 1 / 8
    assert real["characters"] == pytest.approx(sum(map(len, TEXTS)) / 8)
    words = [text.replace("|", " ").split() for text in TEXTS]
    assert real["distinct"][0] == pytest.approx(len({w for each in words for w in each}) / sum(map(len, words)))


def test_captions_that_grow_too_long_are_counted_as_cut(tmp_path: Path, data: Manifest) -> None:
    blind_model(tmp_path / "endless", data, {"|": 1e-9, "a": 1.0})
    figures = evaluated(tmp_path, ["endless"], temperatures="[0.5]")["models"][0]["sweep"][0]
    assert (figures["cut"], figures["empty"]) == (1, 0)
    assert figures["repeated"] == pytest.approx(1 - 2 / 6)  # the same on each of two templates


def test_the_same_evaluation_finds_the_same(tmp_path: Path, data: Manifest) -> None:
    blind_model(tmp_path / "model", data, shares(TEXTS))
    assert evaluated(tmp_path, ["model"]) == evaluated(tmp_path, ["model"])


def test_the_reports_show_what_strangers_say_and_do_not_obey(tmp_path: Path, write_dataset: WriteDataset) -> None:
    evil = "<script>alert(1)</script>|x"
    rows: Rows = [(evil, ("<img src=x>", "&amp; a*b*")), (evil, ("one", "two"))]
    manifest = write_dataset(tmp_path / "dataset", {"train": rows, "test": rows})
    folder = tmp_path / "<b>model|"
    blind_model(folder, manifest, shares(["<img src=x>|&amp; a*b*|one|two|"]))
    evaluated(tmp_path, ["<b>model|"])
    page = Page((tmp_path / "report" / "report.html").read_text())
    assert [page.of(tag) for tag in ("script", "img", "b")] == [[], [], []]
    assert "<img src=x>" in page.text
    assert "alert(1)" in page.text
    text = (tmp_path / "report" / "report.md").read_text()
    assert "| <b>" not in text
    assert "<script>" not in "\n".join(line for line in text.splitlines() if not line.startswith("    "))


def test_the_page_has_three_charts_with_a_line_a_model_and_one_for_people(tmp_path: Path, data: Manifest) -> None:
    for name in ("one", "other"):
        blind_model(tmp_path / name, data, shares(TEXTS))
    evaluated(tmp_path, ["one", "other"])
    page = Page((tmp_path / "report" / "report.html").read_text())
    classes = Counter(path.get("class") for path in page.of("path"))
    keys = 1
    assert (classes["many"], classes["real"]) == (2 * (3 + keys), 3 + keys)


def test_a_report_without_writing_says_nothing_of_it(tmp_path: Path, data: Manifest) -> None:
    blind_model(tmp_path / "model", data, shares(TEXTS))
    assert evaluated(tmp_path, ["model"], written=0)["real"] is None
    for name in ("report.html", "report.md"):
        assert "What they write" not in (tmp_path / "report" / name).read_text()


def board(folder: Path) -> list[list[str]]:
    """The rows of the leaderboard."""
    lines = [line for line in (folder / "board.md").read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_leaderboard_has_a_row_a_model_best_first(tmp_path: Path, data: Manifest) -> None:
    flat = dict.fromkeys(shares(TEXTS), 1.0)
    blind_model(tmp_path / "flat", data, flat)
    blind_model(tmp_path / "fair", data, shares(TEXTS), trained_seconds=3720, device="a card", commit="abc1234")
    for models in (["flat"], ["fair"], ["flat", "fair"]):
        evaluated(tmp_path, models, written=0, leaderboard=tmp_path / "board.md")
    fair, unsure = board(tmp_path)
    assert fair[:2] == ["fair", "convnet"]
    assert fair[7:] == ["1 h 02 min", "a card", "abc1234", dataset_digest(data), "test", "8"]
    assert unsure[7:10] == ["–", "–", "–"]
    assert float(unsure[3]) > float(fair[3])


def test_the_leaderboard_keeps_what_else_stands_on_its_page(tmp_path: Path, data: Manifest) -> None:
    blind_model(tmp_path / "model", data, shares(TEXTS))
    path = tmp_path / "board.md"
    evaluated(tmp_path, ["model"], written=0, leaderboard=path)
    path.write_text(f"before\n{path.read_text()}\nbehind\n")
    text = path.read_text()
    evaluated(tmp_path, ["model"], written=0, leaderboard=path)
    assert path.read_text() == text
    blind_model(tmp_path / "model", data, dict.fromkeys(shares(TEXTS), 1.0))
    before = board(tmp_path)
    evaluated(tmp_path, ["model"], written=0, leaderboard=path)
    assert len(board(tmp_path)) == 1
    assert board(tmp_path) != before


def test_a_page_that_is_no_leaderboard_is_left_alone(tmp_path: Path, data: Manifest) -> None:
    blind_model(tmp_path / "model", data, shares(TEXTS))
    path = tmp_path / "board.md"
    path.write_text("# Something else\n")
    with pytest.raises(MemeloomError, match=r"board\.md: no leaderboard"):
        evaluated(tmp_path, ["model"], written=0, leaderboard=path)
    assert path.read_text() == "# Something else\n"
    path.unlink()
    evaluated(tmp_path, ["model"], written=0, leaderboard=path)
    path.write_text(path.read_text() + "| a | row | of | strangers |\n")
    with pytest.raises(MemeloomError, match=r"board\.md: line \d+ is no row of the leaderboard"):
        evaluated(tmp_path, ["model"], written=0, leaderboard=path)


def test_a_dataset_that_another_model_learned_from_is_told(tmp_path: Path, data: Manifest) -> None:
    blind_model(tmp_path / "ours", data, shares(TEXTS), dataset=dataset_digest(data))
    blind_model(tmp_path / "theirs", data, shares(TEXTS), dataset="0123456789ab")
    evaluated(tmp_path, ["ours", "theirs"], written=0)
    text = (tmp_path / "report" / "report.md").read_text()
    assert "theirs learned from another dataset (0123456789ab)" in text
    assert "ours learned" not in text


def test_what_is_missing_is_said_in_a_line(tmp_path: Path, data: Manifest, write_dataset: WriteDataset) -> None:
    with pytest.raises(MemeloomError, match=r"no models to evaluate: name their folders, or set evaluate\.models"):
        evaluated(tmp_path, [])
    with pytest.raises(NotAModel, match=r"nowhere: no model here"):
        evaluated(tmp_path, ["nowhere"])
    write_dataset(tmp_path / "half", {"train": TRAIN, "validation": TEST})
    with pytest.raises(MemeloomError, match=r"no captions for test; set evaluate\.split=validation"):
        evaluated(tmp_path, ["nowhere"], dataset=tmp_path / "half")
    write_dataset(tmp_path / "none", {"train": TRAIN})
    with pytest.raises(MemeloomError, match=r"no captions for test; raise dataset\.split\.test and build it again"):
        evaluated(tmp_path, ["nowhere"], dataset=tmp_path / "none")


def test_the_command_takes_folders_and_tells_where_the_report_is(tmp_path: Path, data: Manifest) -> None:
    blind_model(tmp_path / "model", data, shares(TEXTS))
    options = ["--dataset", str(tmp_path / "dataset"), "--output", str(tmp_path / "report"), "--captions", "4"]
    result = CliRunner().invoke(
        cli,
        ["--set", f"runs={tmp_path / 'runs'}", "evaluate", str(tmp_path / "model"), *options, "--written", "0"],
    )
    assert result.exit_code == 0, result.output
    assert "report.html" in result.output
    assert json.loads((tmp_path / "report" / "metrics.json").read_text())["captions"] == 4
