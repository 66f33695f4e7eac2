"""Replaces operations of the recogniser by those that ONNX Runtime computes in 8-bit integers.

GELU has no integer version: its input would be converted to floats and its output back, a quarter of the recogniser's
time. The sigmoid has one, a table of 256 entries, and so has the product: GELU(x) is about x * sigmoid(1.702 x)
(Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016).
"""

import math

import numpy as np
import onnx
from onnx import helper, numpy_helper

_STEEPNESS = 1.702
_GATE_SCALE, _GATE_ZERO = "gate_scale", "gate_zero"


def use_integer_operations(model: onnx.ModelProto) -> onnx.ModelProto:
    """Approximate each GELU by a gate, and compute means over the picture by pooling. Before quantisation."""
    for node in model.graph.node:
        if node.op_type == "Gelu":
            node.op_type = "QuickGelu"
            node.attribute.append(helper.make_attribute("alpha", _STEEPNESS))
        elif node.op_type == "ReduceMean" and helper.get_node_attr_value(node, "axes") == [2, 3]:
            node.op_type = "GlobalAveragePool"
            del node.attribute[:]
    return model


def gate_by_table(model: onnx.ModelProto) -> onnx.ModelProto:
    """Split each gate between quantised tensors into sigmoid and product. After quantisation.

    The sigmoid's argument is 1.702 x without a further operation: the same integers as x at 1.702 times the scale.
    """
    graph = model.graph
    made_by = {output: node for node in graph.node for output in node.output}
    values = {tensor.name: tensor for tensor in graph.initializer}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        if not _is_gate(node):
            nodes.append(node)
            continue
        source = made_by[node.input[0]]
        quantised, scale, zero = source.input
        steep = numpy_helper.to_array(values[scale]) * _STEEPNESS
        graph.initializer.append(numpy_helper.from_array(np.asarray(steep, np.float32), f"{node.output[0]}_steep"))
        nodes += _gate(quantised, source.output[0], zero, node.output[0])
    graph.initializer.append(numpy_helper.from_array(np.asarray(1 / 256, np.float32), _GATE_SCALE))
    graph.initializer.append(numpy_helper.from_array(np.asarray(0, np.uint8), _GATE_ZERO))
    del graph.node[:]
    graph.node.extend(nodes)
    return model


def _is_gate(node: onnx.NodeProto) -> bool:
    """Return True for our gates; those of the package have another steepness and few elements."""
    return node.op_type == "QuickGelu" and math.isclose(
        helper.get_node_attr_value(node, "alpha"), _STEEPNESS, rel_tol=1e-6
    )


def _gate(quantised: str, value: str, zero: str, output: str) -> list[onnx.NodeProto]:
    argument, share, stored, restored = (f"{output}_{part}" for part in ("argument", "share", "stored", "restored"))
    scaled = [_GATE_SCALE, _GATE_ZERO]
    return [
        helper.make_node("DequantizeLinear", [quantised, f"{output}_steep", zero], [argument]),
        helper.make_node("Sigmoid", [argument], [share]),
        helper.make_node("QuantizeLinear", [share, *scaled], [stored]),
        helper.make_node("DequantizeLinear", [stored, *scaled], [restored]),
        helper.make_node("Mul", [value, restored], [output]),
    ]
