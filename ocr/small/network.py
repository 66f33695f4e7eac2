"""The network of the small recogniser in Keras, and its conversion to ONNX.

Convolutions alone: a column of the output depends on about 60 pixels of the line.
"""

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from memeloom.ocr.engines.rapidocr_small import HEIGHT

_INPUT = "x"
_OPSET, _IR_VERSION = 17, 9


def build(classes: int) -> Any:
    """Return the Keras network: BGR lines (batch, 32, width, 3), -1 to 1, to logits (batch, 1, width / 4, classes)."""
    from keras import Input, Model, layers

    def convolved(x: Any, channels: int, size: Any, strides: Any = 1, padding: str = "same", act: bool = True) -> Any:
        x = layers.Conv2D(channels, size, strides, padding, use_bias=False, kernel_initializer="he_normal")(x)
        x = layers.BatchNormalization(momentum=0.99)(x)
        return layers.ReLU()(x) if act else x

    def residual(x: Any, channels: int, size: Any) -> Any:
        changed = convolved(convolved(x, channels, size), channels, size, act=False)
        return layers.ReLU()(layers.Add()([x, changed]))

    line = Input((HEIGHT, None, 3))
    x = convolved(convolved(line, 24, 3, 2), 24, 3)
    x = residual(convolved(x, 48, 3, 2), 48, 3)
    x = residual(convolved(x, 96, 3, (2, 1)), 96, 3)
    x = convolved(x, 192, (4, 1), padding="valid")  # the height is now 1
    x = residual(residual(x, 192, (1, 5)), 192, (1, 3))
    x = layers.Conv2D(classes, 1)(layers.Dropout(0.1)(x))
    return Model(line, layers.Activation("linear", dtype="float32")(x))


def to_onnx(network: Any) -> onnx.ModelProto:
    """Return the trained network with a softmax and batch normalisation folded into convolutions.

    Its output is (1, columns, classes); its input's width must be a multiple of 4.
    """
    from keras import layers

    names, nodes, weights = dict[int, str](), list[onnx.NodeProto](), list[onnx.TensorProto]()
    normalised = {id(layer.input): layer for layer in network.layers if isinstance(layer, layers.BatchNormalization)}
    for layer in network.layers:
        sources = [names.get(id(tensor), _INPUT) for tensor in _inputs(layer)]
        name = sources[0] if sources else _INPUT  # of layers that do nothing here
        match layer:
            case layers.Conv2D():
                name = layer.name
                kernel, bias = _folded(layer, normalised.get(id(layer.output)))
                weights += [numpy_helper.from_array(kernel, f"{name}_w"), numpy_helper.from_array(bias, f"{name}_b")]
                nodes.append(helper.make_node(
                    "Conv", [sources[0], f"{name}_w", f"{name}_b"], [name],
                    kernel_shape=layer.kernel_size, strides=layer.strides, pads=_pads(layer),
                ))  # fmt: skip
            case layers.ReLU() | layers.Add():
                name = layer.name
                nodes.append(helper.make_node("Relu" if isinstance(layer, layers.ReLU) else "Add", sources, [name]))
        names[id(layer.output)] = name
    weights.append(numpy_helper.from_array(np.array([2], np.int64), "height"))
    nodes += [
        helper.make_node("Squeeze", [names[id(network.outputs[0])], "height"], ["columns"]),
        helper.make_node("Transpose", ["columns"], ["logits"], perm=[0, 2, 1]),
        helper.make_node("Softmax", ["logits"], ["y"], axis=2),
    ]
    graph = helper.make_graph(
        nodes, "small_recogniser",
        [helper.make_tensor_value_info(_INPUT, TensorProto.FLOAT, [1, 3, HEIGHT, "width"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, "columns", network.output_shape[-1]])],
        weights,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
    onnx.checker.check_model(model)
    return model


def _inputs(layer: Any) -> list[Any]:
    return layer.input if isinstance(layer.input, list) else [layer.input]


def _folded(layer: Any, normalisation: Any) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return kernel and bias of a convolution with the normalisation after it."""
    kernel, *bias = (np.asarray(values, np.float32) for values in layer.get_weights())
    kernel = kernel.transpose(3, 2, 0, 1)
    if normalisation is None:
        return np.ascontiguousarray(kernel), bias[0]
    scale, shift, mean, variance = (np.asarray(values, np.float32) for values in normalisation.get_weights())
    factor = scale / np.sqrt(variance + normalisation.epsilon)
    return np.ascontiguousarray(kernel * factor[:, None, None, None]), np.asarray(shift - mean * factor, np.float32)


def _pads(layer: Any) -> list[int]:
    """Return the padding of Keras's "same" for even sizes: with strides one pixel, at the end."""
    if layer.padding == "valid":
        return [0, 0, 0, 0]
    pairs = list(zip(layer.kernel_size, layer.strides, strict=True))
    starts = [(size - 1) // 2 if stride == 1 else 0 for size, stride in pairs]
    return starts + [size - stride - start for (size, stride), start in zip(pairs, starts, strict=True)]
