"""The small detector in Keras: the package's detector made narrower where that costs little, with its weights to begin.

What is left out, against the package's network: the branch of its stem, its channel attention (whose mean is part of
the weights), GELU (here ReLU, which is free with integers), and three quarters of the channels in which the scales are
joined. It marks 4 x 4 pixels at once.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from memeloom.ocr.models.networks import Picture, network_input
from memeloom.ocr.small import conversion

CELL = 4
_JOINED = 24  # channels in which scales are joined
_WIDE = 96  # channels of the two coarse scales before
# Channels and blocks of each scale.
_SCALES = ((48, 2), (96, 2), (192, 4), (384, 2))
# Number of the first convolution of each scale in the package's network, after its attention's two, if it has them.
_FIRST, _LATERAL, _NARROW = 7, (41, 44), (53, 56)
# Scales whose first block has attention, by the number of its depthwise convolution and of its attention.
_ATTENTION = {0: 0, 3: 1, 6: 2, 8: 3, 11: 4}
_LATERAL_ATTENTION, _NARROW_ATTENTION = (5, 6), (9, 10)


def build() -> Any:
    """Return the Keras network.

    Its input: BGR pictures (batch, height, width, 3), -1 to 1, edges in multiples of 32. Its output: logits (batch,
    height / 4, width / 4, 16), a cell's pixels by row.
    """
    from keras import Input, Model, layers

    def convolved(x: Any, channels: int, size: int, name: str, stride: int = 1, *, act: bool = False) -> Any:
        x = _padded(x) if stride == 2 else x
        padding = "valid" if stride == 2 else "same"
        x = layers.Conv2D(channels, size, stride, padding, name=name, kernel_initializer="he_normal")(x)
        return layers.ReLU()(x) if act else x

    def depthwise(x: Any, size: int, name: str, stride: int = 1) -> Any:
        x = _padded(x) if stride == 2 else x
        return layers.DepthwiseConv2D(size, stride, "valid" if stride == 2 else "same", name=name)(x)

    def _padded(x: Any) -> Any:
        return layers.ZeroPadding2D(((1, 0), (1, 0)))(x)

    picture = Input((None, None, 3))
    x = convolved(picture, 24, 3, "stem0", 2, act=True)
    x = convolved(x, 24, 3, "stem1", 2, act=True)
    x = convolved(x, 48, 1, "stem2", act=True)
    number, found = 0, []
    for scale, (channels, blocks) in enumerate(_SCALES):
        for block in range(blocks + (scale > 0)):
            down = scale > 0 and block == 0
            wide = 2 * _SCALES[scale - 1][0] if down else 2 * channels
            kept = x = depthwise(x, 3, f"depth{number}", 2 if down else 1)
            x = convolved(x, wide, 1, f"expand{number}", act=True)
            x = convolved(x, channels, 1, f"reduce{number}")
            x = x if down else layers.Add()([kept, x])
            number += 1
        found.append(x)
    joined: Any = None
    for level, scale in enumerate(reversed(found)):
        if level < len(_NARROW):
            x = depthwise(convolved(scale, _WIDE, 1, f"lateral{level}"), 7, f"look{level}")
            x = convolved(x, _JOINED, 1, f"narrow{level}")
        else:
            x = convolved(scale, _JOINED, 1, f"lateral{level}")
        joined = x if joined is None else layers.Add()([x, layers.UpSampling2D(2)(joined)])
    x = convolved(layers.ReLU()(joined), _JOINED, 3, "join", act=True)
    x = convolved(x, CELL * CELL, 1, "cells")
    return Model(picture, layers.Activation("linear", dtype="float32")(x))


def to_onnx(network: Any) -> onnx.ModelProto:
    """Return the trained network, each pixel's probability after it: (1, 3, height, width) to (1, 1, height, width)."""
    tail = [
        helper.make_node("DepthToSpace", ["network"], ["logits"], blocksize=CELL),
        helper.make_node("Sigmoid", ["logits"], ["y"]),
    ]
    sizes = ["height", "width"]
    return conversion.to_onnx(network, "small_detector", [1, 3, *sizes], tail, [1, 1, *sizes])


def begin_from(network: Any, source: onnx.ModelProto, pictures: Iterable[Picture]) -> None:
    """Copy the package's weights into `network`; `pictures` show the mean of its channel attention."""
    weights = _weights(source)
    gates = _gates(source, pictures)
    for layer in network.layers:
        name = layer.name
        if name in ("stem0", "stem2"):
            kernel, bias = weights[f"conv2d.{0 if name == 'stem0' else 4}"]
        elif name == "stem1":  # the half of the channels that comes past the branch
            kernel, bias = weights["conv2d.3"]
            kernel = kernel[:, : kernel.shape[1] // 2]
        elif name.startswith("depth"):
            number = int(name[5:])
            kernel, bias = weights[f"depthwise_conv2d.{number}"]
            if number in _ATTENTION:
                kernel, bias = _gated(kernel, bias, gates[_ATTENTION[number]])
        elif name.startswith(("expand", "reduce")):
            number = int(name[6:])
            before = sum(2 for other in _ATTENTION if 0 < other <= number)
            kernel, bias = weights[f"conv2d.{_FIRST + 2 * number + before + name.startswith('reduce')}"]
        elif name in ("lateral0", "lateral1"):
            level = int(name[-1])
            kernel, bias = weights[f"conv2d.{_LATERAL[level]}"]
            kernel, bias = _gated(kernel, bias, 1 + gates[_LATERAL_ATTENTION[level]])
        elif name.startswith("look"):
            kernel, bias = weights[f"depthwise_conv2d.{13 + int(name[-1])}"]
        elif name.startswith("narrow"):
            level = int(name[-1])
            kernel, bias = weights[f"conv2d.{_NARROW[level]}"]
            kernel, bias = _gated(kernel, bias, 1 + gates[_NARROW_ATTENTION[level]])
        else:
            continue
        axes = (2, 3, 0, 1) if name.startswith(("depth", "look")) else (2, 3, 1, 0)
        layer.set_weights([kernel.transpose(axes), bias])


def _gated(
    kernel: NDArray[np.float32], bias: NDArray[np.float32], gate: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    return kernel * gate[:, None, None, None], bias * gate


def _weights(source: onnx.ModelProto) -> Mapping[str, tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Return kernel and bias of each convolution, by its name in the package's network."""
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in source.graph.initializer}
    reader = {node.input[0]: node for node in source.graph.node}
    found = {}
    for node in source.graph.node:
        if node.op_type != "Conv":
            continue
        kernel = values[node.input[1]].astype(np.float32)
        after = reader.get(node.output[0])
        bias = np.zeros(kernel.shape[0], np.float32)
        if len(node.input) > 2:
            bias = values[node.input[2]].astype(np.float32)
        elif after is not None and after.op_type == "Add" and after.input[1] in values:
            bias = values[after.input[1]].astype(np.float32).ravel()
        found[node.output[0].removeprefix("p2o.pd_op.").removesuffix(".0")] = kernel, bias
    return found


def _gates(source: onnx.ModelProto, pictures: Iterable[Picture]) -> list[NDArray[np.float32]]:
    """Return the mean of each channel attention, (channels,), over `pictures`."""
    names = [node.output[0] for node in source.graph.node if node.op_type == "HardSigmoid"]
    watched = onnx.ModelProto()
    watched.CopyFrom(source)
    watched.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    session = onnxruntime.InferenceSession(watched.SerializeToString(), providers=["CPUExecutionProvider"])
    seen = [session.run(names, {session.get_inputs()[0].name: network_input(picture)}) for picture in pictures]
    return [np.mean([gates[number].ravel() for gates in seen], axis=0) for number in range(len(names))]
