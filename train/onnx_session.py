"""An exported network on ONNX Runtime."""

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from memeloom.configs.extras import require


class OnnxNetwork:
    """A network from a file of `memeloom export-model --format onnx`.

    input_shapes: of its inputs; None for a dimension of any size.
    Raises MissingExtra: ONNX Runtime is not installed. ValueError: the file is not an ONNX network.
    """

    def __init__(self, path: Path) -> None:
        require("serve", "onnxruntime")
        import onnxruntime

        options = onnxruntime.SessionOptions()
        # A server shares its processors: threads that wait must not spin.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime has its own classes of errors, which share no base
            raise ValueError(f"{path.name}: {str(error).splitlines()[0]}") from error
        inputs = self._session.get_inputs()
        self._names = [each.name for each in inputs]
        self.input_shapes = [[size if isinstance(size, int) else None for size in each.shape] for each in inputs]

    def __call__(self, *inputs: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the outputs for inputs in the order of the network's."""
        outputs: list[NDArray[Any]] = self._session.run(None, dict(zip(self._names, inputs, strict=True)))
        return outputs
