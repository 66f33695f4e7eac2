"""Converts a Keras network of convolutions to ONNX, with batch normalisation folded into the convolutions."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

INPUT = "x"
_OPSET, _IR_VERSION = 17, 9
_TWICE = "twice"


def to_onnx(
    network: Any, name: str, shape: Sequence[int | str], tail: Sequence[NodeProto], output: Sequence[int | str],
    constants: Sequence[TensorProto] = (),
) -> onnx.ModelProto:  # fmt: skip
    """Return the trained network with the operations of `tail`, which reads `network` and ends in `y`.

    shape, output: of the input `x` and of `y`, channels first. constants: of `tail`.
    """
    from keras import layers

    names, padded = dict[int, str](), set[int]()
    nodes, weights = list[NodeProto](), list(constants)
    normalised = {id(layer.input): layer for layer in network.layers if isinstance(layer, layers.BatchNormalization)}
    for layer in network.layers:
        sources = [names.get(id(tensor), INPUT) for tensor in _inputs(layer)]
        made = sources[0] if sources else INPUT  # of layers that do nothing here
        match layer:
            case layers.Conv2D() | layers.DepthwiseConv2D():
                made = layer.name
                kernel, bias = _folded(layer, normalised.get(id(layer.output)))
                weights += [numpy_helper.from_array(kernel, f"{made}_w"), numpy_helper.from_array(bias, f"{made}_b")]
                nodes.append(helper.make_node(
                    "Conv", [sources[0], f"{made}_w", f"{made}_b"], [made], name=made, kernel_shape=layer.kernel_size,
                    strides=layer.strides, pads=_pads(layer, before=id(layer.input) in padded),
                    group=len(kernel) if isinstance(layer, layers.DepthwiseConv2D) else 1,
                ))  # fmt: skip
            case layers.ReLU() | layers.Add():
                made = layer.name
                nodes.append(helper.make_node("Relu" if isinstance(layer, layers.ReLU) else "Add", sources, [made]))
            case layers.UpSampling2D():
                made = layer.name
                nodes.append(helper.make_node(
                    "Resize", [sources[0], "", _TWICE], [made],
                    mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor",
                ))  # fmt: skip
            case layers.ZeroPadding2D():
                padded.add(id(layer.output))
        names[id(layer.output)] = made
    nodes.append(helper.make_node("Identity", [names[id(network.outputs[0])]], ["network"]))
    if any(_TWICE in node.input for node in nodes):
        weights.append(numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), _TWICE))
    graph = helper.make_graph(
        [*nodes, *tail], name,
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)],
        weights,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
    onnx.checker.check_model(model)
    return model


def _inputs(layer: Any) -> list[Any]:
    return layer.input if isinstance(layer.input, list) else [layer.input]


def _folded(layer: Any, normalisation: Any) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return kernel and bias of a convolution with the normalisation after it."""
    from keras import layers

    kernel, *bias = (np.asarray(values, np.float32) for values in layer.get_weights())
    # Keras: height, width, inputs, outputs; of a depthwise one, channels, 1. ONNX: outputs, inputs, height, width.
    kernel = kernel.transpose((2, 3, 0, 1) if isinstance(layer, layers.DepthwiseConv2D) else (3, 2, 0, 1))
    if normalisation is None:
        return np.ascontiguousarray(kernel), bias[0]
    scale, shift, mean, variance = (np.asarray(values, np.float32) for values in normalisation.get_weights())
    factor = scale / np.sqrt(variance + normalisation.epsilon)
    return np.ascontiguousarray(kernel * factor[:, None, None, None]), np.asarray(shift - mean * factor, np.float32)


def _pads(layer: Any, *, before: bool) -> list[int]:
    """Return the padding: a pixel above and left if a layer `before` adds it, else that of Keras.

    Keras's "same" adds, for even sizes and with strides, one pixel more at the end.
    """
    if layer.padding == "valid":
        return [1, 1, 0, 0] if before else [0, 0, 0, 0]
    pairs = list(zip(layer.kernel_size, layer.strides, strict=True))
    starts = [(size - 1) // 2 if stride == 1 else 0 for size, stride in pairs]
    return starts + [size - stride - start for (size, stride), start in zip(pairs, starts, strict=True)]
