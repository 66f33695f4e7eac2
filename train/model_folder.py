"""A trained model as a folder that is complete in itself.

| file | holds |
| --- | --- |
| `model.keras` | network and weights, without the optimizer |
| `vocabulary.json` | the characters, in the order of their numbers |
| `templates.json` | the templates it learned: ids, names, text boxes and where they stand |
| `metrics.json` | loss and accuracy on the validation captions, and when |
| `config.yaml` | the settings of the training, secrets masked |
| `model.json` | the card: version and sha256 of the others; written last |

`checkpoint.npz` and `history.*` beside them belong to the training, not to the model.
"""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs.errors import MemeloomError
from configs.load import write_config
from configs.outputs import atomic_file, write_json
from configs.schema import Config
from dataset.manifest import DatasetTemplate, file_sha256
from train.backend import keras
from train.characters import Alphabet

CARD = "model.json"
KIND = "memeloom model"
VERSION = 1
_NETWORK = "model.keras"
_ALPHABET = "vocabulary.json"
_TEMPLATES = "templates.json"
_METRICS = "metrics.json"
_CONFIG = "config.yaml"
_FILES = (_NETWORK, _ALPHABET, _TEMPLATES, _METRICS, _CONFIG)


class NotAModel(MemeloomError):
    """A folder that holds no model, a damaged one, or one of another version."""


@dataclass(frozen=True, slots=True)
class CaptionModel:
    """A network and what it takes to use it.

    network: a Keras model, int32 (n, sequence_length) to float32 (n, characters).
    templates: most captions first. separator: the character that ends a text box.
    """

    network: Any
    alphabet: Alphabet
    templates: tuple[DatasetTemplate, ...]
    separator: str

    @property
    def sequence_length(self) -> int:
        """Characters that the network sees at once."""
        return int(self.network.input_shape[1])


def write_model(folder: Path, model: CaptionModel, metrics: Mapping[str, Any], config: Config) -> None:
    """Write `model` into `folder`. A reader sees the old model, none, or the new one, never a mixture."""
    (folder / CARD).unlink(missing_ok=True)
    with atomic_file(folder / _NETWORK) as stream:
        stream.write(_network_bytes(model.network))
    write_json(folder / _ALPHABET, list(model.alphabet.characters))
    write_json(folder / _TEMPLATES, [template.model_dump(mode="json") for template in model.templates])
    write_json(folder / _METRICS, dict(metrics))
    write_config(folder / _CONFIG, config)
    card = {
        "kind": KIND,
        "version": VERSION,
        "network": model.network.name,
        "parameters": model.network.count_params(),
        "separator": model.separator,
        "files": {name: file_sha256(folder / name) for name in _FILES},
    }
    write_json(folder / CARD, card)


def load_model(folder: Path) -> CaptionModel:
    """Load the model in `folder` after checking every byte of it.

    Raises:
        NotAModel: there is none, it is of another version, or a file is missing or altered.
    """
    card = _checked_card(folder)
    try:
        characters = json.loads((folder / _ALPHABET).read_text(encoding="utf-8"))
        templates = json.loads((folder / _TEMPLATES).read_text(encoding="utf-8"))
        return CaptionModel(
            network=keras.saving.load_model(folder / _NETWORK, compile=False),
            alphabet=Alphabet(tuple(characters)),
            templates=tuple(DatasetTemplate.model_validate(template) for template in templates),
            separator=card["separator"],
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NotAModel(f"{folder}: the model cannot be read ({error}); train again") from error


def _checked_card(folder: Path) -> Mapping[str, Any]:
    path = folder / CARD
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotAModel(f"{folder}: no model here (no {CARD}); train one with `memeloom train`") from None
    except (OSError, ValueError) as error:
        raise NotAModel(f"{path}: cannot be read ({error}); train again") from error
    if not isinstance(card, dict) or card.get("kind") != KIND:
        raise NotAModel(f"{path}: not the card of a memeloom model")
    if card.get("version") != VERSION:
        raise NotAModel(f"{path}: version {card.get('version')}, expected {VERSION}; train again")
    if set(card.get("files", ())) != set(_FILES):
        raise NotAModel(f"{path}: expected the files {', '.join(_FILES)}; train again")
    _check_files(folder, card["files"])
    return card


def _check_files(folder: Path, files: Mapping[str, str]) -> None:
    for name, sha256 in files.items():
        try:
            found = file_sha256(folder / name)
        except OSError:
            raise NotAModel(f"{folder / name}: missing; train again") from None
        if found != sha256:
            raise NotAModel(f"{folder / name}: damaged (its sha256 is not the one of {CARD}); train again")


def _network_bytes(network: Any) -> bytes:
    """The bytes of a `.keras` file."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / _NETWORK
        keras.saving.save_model(network, path, include_optimizer=False)
        return path.read_bytes()
