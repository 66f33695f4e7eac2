"""Many devices learn what one device learns, on both backends: virtual devices, and processes that work together."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from memeloom.configs.errors import ConfigError
from memeloom.configs.load import write_config
from memeloom.configs.progress import Silent
from memeloom.configs.schema import Config
from memeloom.train.backend import BACKEND
from memeloom.train.fit import train_model

Toy: TypeAlias = Callable[..., Config]
ROOT = Path(__file__).parents[2]
# Trains on several devices, then (the one that writes) on one, and prints how far apart both came out.
TWICE = """
import json, os, sys
from pathlib import Path
import numpy as np
from memeloom.configs.load import load_config
from memeloom.configs.progress import Silent

several, single, backend, virtual = sys.argv[1:]
if int(virtual) > 1 and backend == "tensorflow":
    import tensorflow as tf
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * int(virtual))
from memeloom.train.fit import train_model
from memeloom.train.model_folder import load_model

config = load_config(Path(several), (), {})
summary = train_model(config, Silent())
found = {"devices": summary.counts["devices"], "loss": summary.counts["validation_loss"]}
if single != "-":
    alone = load_config(Path(single), (), {})
    train_model(alone, Silent())
    outputs = [Path(each.train.output) for each in (config, alone)]
    weights = [load_model(folder).networks[config.train.model].get_weights() for folder in outputs]
    rows = [[json.loads(line) for line in (folder / "history.jsonl").open()] for folder in outputs]
    apart = [np.abs(one - other) / np.maximum(1, np.abs(one)) for one, other in zip(*weights)]
    found["weights"] = float(max(each.max() for each in apart))
    names = ("loss", "accuracy", "validation_loss", "validation_accuracy")
    found["curve"] = max(abs(one[name] - other[name]) for one, other in zip(*rows, strict=True) for name in names)
print(json.dumps(found))
"""
# The sums over a batch run in another order. RMSprop and Adam divide each gradient by its size and so make something
# of the last bits of those that are almost nothing: at the rate chosen, no more than this share of what is over 1.
TOLERANCE = 2e-5


def settings(toy: Toy, folder: Path, name: str, devices: str, kind: str) -> Path:
    config = toy(
        folder,
        model=kind,
        output=str(folder / name),
        devices=devices,
        steps=6,
        steps_per_epoch=3,
        samples_per_epoch=0,
        convnet__dropout=0,
        convnet__learning_rate=0.0005,
        convnet__clip_norm=0.5,
        causal__blank=0,
        causal__learning_rate=0.0005,
        causal__clip_norm=0.5,
    )
    path = folder / f"{name}.yaml"
    write_config(path, config)
    return path


def start(backend: str, several: Path, single: Path | str, virtual: int, **more: str) -> "subprocess.Popen[str]":
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "KERAS_BACKEND": backend,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={virtual}" if backend == "jax" else "",
        **more,
    }
    return subprocess.Popen(
        [sys.executable, "-c", TWICE, str(several), str(single), backend, str(virtual)],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def answer(process: "subprocess.Popen[str]") -> dict[str, Any]:
    try:
        said, complaints = process.communicate(timeout=250)
    finally:
        process.kill()
    assert process.returncode == 0, complaints[-3000:]
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found


@pytest.mark.parametrize("kind", ["convnet", "causal"])
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_four_devices_learn_what_one_does(toy: Toy, tmp_path: Path, backend: str, kind: str) -> None:
    if backend == "jax":
        pytest.importorskip("jax")
    several, single = (settings(toy, tmp_path, name, name, kind) for name in ("all", "one"))
    found = answer(start(backend, several, single, 4))
    assert found["devices"] == 4
    assert found["weights"] < TOLERANCE
    assert found["curve"] < TOLERANCE


# Batch normalisation goes between processes, and so does a table of which each batch learns some rows.
@pytest.mark.parametrize(("backend", "kind"), [("tensorflow", "convnet"), ("tensorflow", "causal"), ("jax", "causal")])
def test_two_processes_learn_what_one_does_and_only_the_first_writes(
    toy: Toy, tmp_path: Path, backend: str, kind: str
) -> None:
    if backend == "jax":
        pytest.importorskip("jax")
    several, single = (settings(toy, tmp_path, name, name, kind) for name in ("workers", "one"))
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        addresses = [f"127.0.0.1:{server.getsockname()[1]}" for server in (one, other)]
    processes = []
    for rank in (0, 1):
        task = {"type": "worker", "index": rank}
        environment = {
            "TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": task}),
            "KERAS_DISTRIBUTION_JOB_ADDRESSES": ",".join(addresses),
            "KERAS_DISTRIBUTION_NUM_PROCESSES": "2",
            "KERAS_DISTRIBUTION_PROCESS_ID": str(rank),
        }
        processes.append(start(backend, several, "-" if rank else single, 1, **environment))
    try:
        chief, worker = map(answer, processes)
    finally:
        for process in processes:
            process.kill()
    assert chief["devices"] == worker["devices"] == 2
    assert chief["loss"] == worker["loss"]
    assert chief["weights"] < TOLERANCE
    assert chief["curve"] < TOLERANCE


def test_workers_without_an_address_are_refused_in_one_line(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = {"tensorflow": "TF_CONFIG", "jax": "KERAS_DISTRIBUTION_JOB_ADDRESSES"}[BACKEND]
    monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match=rf"train\.devices is workers, but {name} is not set"):
        train_model(toy(tmp_path, devices="workers"), Silent())
