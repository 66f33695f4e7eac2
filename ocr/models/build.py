"""Makes the large recogniser that we read with: `python -m ocr.models.build SOURCE_FILE TARGET_FOLDER CHARACTERS`.

From that of the package, in this order:

1. Cut the last layer from 18,710 characters to those of the language, which also prevents invented
   accents and ideographs.
2. Fuse operations as ONNX Runtime does on loading; otherwise quantisation splits activations, and conversions cost
   more than it saves.
3. Give it operations that exist for integers (`integers.py`).
4. Quantise weights and activations to 8-bit integers (static, one scale per channel), calibrated on drawn lines
   (`samples.py`).

Runs in its own process, so that OCR workers do not hold its libraries.
"""

import logging
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import numpy_helper, version_converter
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from memeloom.ocr.models.integers import gate_by_table, use_integer_operations
from memeloom.ocr.models.networks import RECOGNISER, Picture, letters_of, network_input
from memeloom.ocr.models.samples import lines

# The first version with one scale per channel.
_OPSET = 17
_LINES = 48
# The quantiser does not know what these produce and would leave those convolutions unquantised.
_NOT_FUSED = ("ConvActivationFusion", "MatMulTransposeFusion")
# Its attention layers stay floats: they take a tenth of its time.
_CONVOLUTIONAL = ("Conv", "Concat", "MaxPool", "GlobalAveragePool", "Mul")


def build(source: Path, target: Path, characters: str) -> None:
    """Build a recogniser of `characters` into the folder `target` from the package's file `source`."""
    shrink(keep_characters(onnx.load(source), characters), target / RECOGNISER, lines(_LINES), _CONVOLUTIONAL)


def keep_characters(model: onnx.ModelProto, characters: str) -> onnx.ModelProto:
    """Return `model` with one output for blank and one for each of `characters`, in order.

    Raises:
        ValueError: it does not know one of them, or has other last layers.
    """
    known = letters_of(model)
    kept = [0, *(1 + known.index(character) for character in characters)]
    by_output = {name: node for node in model.graph.node for name in node.output}
    softmax = by_output[model.graph.output[0].name]
    add = by_output[softmax.input[0]] if softmax.op_type == "Softmax" else softmax
    add = by_output[add.input[0]] if add.op_type == "Identity" else add
    matmul = by_output[add.input[0]]
    if (add.op_type, matmul.op_type) != ("Add", "MatMul"):
        raise ValueError(f"a recogniser that ends in {matmul.op_type}, {add.op_type}, {softmax.op_type}")
    for tensor in model.graph.initializer:
        if tensor.name in (add.input[1], matmul.input[1]):
            cut = np.ascontiguousarray(numpy_helper.to_array(tensor)[..., kept])
            tensor.CopyFrom(numpy_helper.from_array(cut, tensor.name))
    model.graph.output[0].type.tensor_type.shape.dim[-1].dim_value = len(kept)
    del model.graph.value_info[:], model.metadata_props[:]
    return model


def shrink(
    model: onnx.ModelProto, target: Path, samples: Iterable[Picture], operations: tuple[str, ...] | None = None
) -> None:
    """Write `model`, fused and quantised, to `target`.

    operations: the kinds to quantise, with activations by table; None for all possible, with exact activations.
    """
    with tempfile.TemporaryDirectory() as name:
        plain, fused = Path(name, "plain.onnx"), Path(name, "fused.onnx")
        onnx.save(version_converter.convert_version(model, _OPSET), plain)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(fused)
        options.log_severity_level = 4
        onnxruntime.InferenceSession(
            str(plain), options, providers=["CPUExecutionProvider"], disabled_optimizers=list(_NOT_FUSED)
        )
        if operations:
            onnx.save(use_integer_operations(onnx.load(fused)), fused)
        quantise(fused, target, samples, operations)
        if operations:
            onnx.save(gate_by_table(onnx.load(target)), target)


def quantise(source: Path, target: Path, samples: Iterable[Picture], operations: tuple[str, ...] | None = None) -> None:
    """Write the network `source` with 8-bit integers, calibrated on BGR `samples`. operations: as in `shrink`."""
    # Weights have 7 bits: with 8, processors without VNNI instructions saturate sums of products and drop letters.
    quantize_static(
        source, target, _Samples(samples, onnx.load(source).graph.input[0].name), quant_format=QuantFormat.QDQ,
        op_types_to_quantize=operations, per_channel=True, reduce_range=True,
        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
    )  # fmt: skip


class _Samples(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, samples: Iterable[Picture], name: str) -> None:
        self._samples: Iterator[Picture] = iter(samples)
        self._name = name

    def get_next(self) -> dict[str, NDArray[np.float32]] | None:
        sample = next(self._samples, None)
        return None if sample is None else {self._name: network_input(sample)}


def main(arguments: list[str]) -> Any:
    """Build, without the libraries' warnings about the package's models."""
    logging.disable(logging.WARNING)
    source, target, characters = arguments
    build(Path(source), Path(target), characters)


if __name__ == "__main__":
    main(sys.argv[1:])
