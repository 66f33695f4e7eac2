"""The folder of a model that takes pictures, written without Keras."""

import json
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, save_model

from memeloom.dataset.manifest import file_sha256
from memeloom.train.model_folder import CARD
from tests.serve.random_model import write_random_model

WEIGHTS, PICTURES, ONNX = "weights.npz", "pictures.npy", "encoder.onnx"
_SIDE = 16


def write_pictured_model(folder: Path, templates: int = 3) -> Path:
    """Write a random model to which a picture is its mean colour; return its folder."""
    write_random_model(folder, templates)
    with np.load(folder / WEIGHTS) as stored:
        weights = dict(stored)
    units = weights["leave"].shape[0]
    sight = np.random.default_rng(1).normal(0, 0.01, (3, units)).astype(np.float32)
    weights |= {"sight": sight, "sight mean": np.zeros(3, np.float32), "sight variance": np.ones(3, np.float32)}
    np.savez(folder / WEIGHTS, allow_pickle=False, **weights)
    np.save(folder / PICTURES, np.zeros((templates, 3), np.float32))
    nodes = [
        helper.make_node("Cast", ["pictures"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["real"], ["vectors"], axes=[1, 2], keepdims=0),
    ]
    shown = helper.make_tensor_value_info("pictures", TensorProto.UINT8, [None, _SIDE, _SIDE, 3])
    vectors = helper.make_tensor_value_info("vectors", TensorProto.FLOAT, [None, 3])
    graph = helper.make_graph(nodes, "encoder", [shown], [vectors])
    network = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    save_model(network, folder / ONNX)
    card = json.loads((folder / CARD).read_text())
    card["files"] |= {name: file_sha256(folder / name) for name in (WEIGHTS, PICTURES, ONNX)}
    (folder / CARD).write_text(json.dumps(card))
    return folder
