"""The state of a training, in one file: weights, optimizer, random state, position and history."""

import json
import tokenize
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from memeloom.configs.errors import MemeloomError
from memeloom.configs.outputs import atomic_file

CHECKPOINT = "checkpoint.npz"
_VERSION = 2
# What NumPy and zipfile raise over files with some bits turned round, cut short or empty.
_DAMAGED = (
    OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, NotImplementedError, SyntaxError,
    tokenize.TokenError, zipfile.BadZipFile,
)  # fmt: skip


@dataclass(slots=True)
class Position:
    """How far a training is.

    step: steps done. identity: what must be equal for the training to go on.
    history: one row an epoch. best: validation loss of the best epoch, None before the first.
    vain: epochs since then.
    """

    identity: Mapping[str, Any]
    step: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    best: float | None = None
    vain: int = 0


def save_checkpoint(folder: Path, variables: Sequence[Any], position: Position) -> None:
    """Write `variables` (weights, optimizer and random generators, in order) and `position`, atomically."""
    about = {
        "version": _VERSION,
        "identity": position.identity,
        "step": position.step,
        "history": position.history,
        "best": position.best,
        "vain": position.vain,
    }
    arrays = [np.asarray(variable) for variable in variables]
    with atomic_file(folder / CHECKPOINT) as stream:
        np.savez(stream, np.array(json.dumps(about)), *arrays, allow_pickle=False)


def restore_checkpoint(folder: Path, variables: Sequence[Any], identity: Mapping[str, Any]) -> Position:
    """Give `variables` the values of the checkpoint in `folder`; a fresh position if there is none.

    Raises:
        MemeloomError: the checkpoint is of another network, dataset or schedule, or is damaged.
    """
    path = folder / CHECKPOINT
    if not path.exists():
        return Position(identity)
    remedy = "choose another train.output, or set train.restart to begin anew"
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            about = json.loads(str(arrays["arr_0"]))
            if about["version"] != _VERSION:
                raise MemeloomError(f"{path}: version {about['version']}, expected {_VERSION}; {remedy}")
            difference = _first_difference(about["identity"], identity)
            if difference:
                raise MemeloomError(f"{folder} holds another training: {difference}; {remedy}")
            for number, variable in enumerate(variables, start=1):
                variable.assign(arrays[f"arr_{number}"])
            return Position(identity, about["step"], about["history"], about["best"], about["vain"])
    except _DAMAGED as error:
        raise MemeloomError(f"{path}: damaged ({str(error) or type(error).__name__}); {remedy}") from error


def _first_difference(held: Mapping[str, Any], wanted: Mapping[str, Any]) -> str | None:
    for key in wanted:
        if held.get(key) != wanted[key]:
            if key == "dataset":
                return "it learned from another dataset"
            return f"{key} was {held.get(key)}, now {wanted[key]}"
    return None
