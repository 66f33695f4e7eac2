"""Keras, imported in one place, which takes 3-8 s and 600 MB with TensorFlow; import `keras` only from here.

KERAS_BACKEND selects TensorFlow or JAX. Code for TensorFlow only imports it locally.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray


@contextmanager
def muted() -> Iterator[None]:
    """Capture standard error, also of native code, and show it only if the body fails.

    TensorFlow's loader logs before it reads TF_CPP_MIN_LOG_LEVEL, so the variable alone is not enough.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as output:
        os.dup2(output.fileno(), 2)
        try:
            yield
        except BaseException:
            output.seek(0)
            os.write(kept, output.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _uses_jax() -> bool:
    """Return whether Keras, which is not imported yet, will use JAX: by KERAS_BACKEND, else by its settings file."""
    if named := os.environ.get("KERAS_BACKEND"):
        return named == "jax"
    settings = Path(os.environ.get("KERAS_HOME", Path.home() / ".keras"), "keras.json")
    return settings.is_file() and b'"jax"' in settings.read_bytes()


@contextmanager
def _hidden(*packages: str) -> Iterator[None]:
    """Let imports of `packages`, unless they are imported already, fail as if they were not installed."""
    absent = [name for name in packages if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# TensorFlow and Keras import these where they are installed, though nobody here passes them a data frame or a sparse
# matrix: a third of the time that TensorFlow takes.
with muted(), _hidden("pandas", "IPython", *([] if _uses_jax() else ["jax", "scipy"])):
    import keras

    BACKEND: str = keras.backend.backend()
    if BACKEND == "tensorflow":
        import tensorflow as tf
    else:
        import jax

__all__ = ["ACCELERATED", "BACKEND", "compiled", "is_out_of_memory", "keras", "muted", "padded_rows"]

ACCELERATED: bool

if not TYPE_CHECKING:

    def __getattr__(name: str) -> bool:
        """Return ACCELERATED: True if there is a GPU or another accelerator.

        The first access initialises JAX's devices; distributed processes must connect before.
        """
        if name != "ACCELERATED":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return _accelerated()


@cache
def _accelerated() -> bool:
    if BACKEND == "tensorflow":
        return any(device.device_type != "CPU" for device in tf.config.list_physical_devices())
    return bool(jax.default_backend() != "cpu")


def compiled(function: Callable[..., Any], *, variables: Sequence[Any] = (), xla: bool = True) -> Callable[..., Any]:
    """Compile `function` of arrays for the backend, once per shape of its arguments.

    variables: Keras variables that `function` reads; JAX would otherwise treat them as constants. xla: False uses
    TensorFlow's own kernels; JAX always uses XLA.
    """
    if BACKEND == "tensorflow":
        return _traced(tf.function(function, jit_compile=xla, autograph=False))

    def of_values(values: Sequence[Any], *arguments: Any) -> Any:
        with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
            return function(*arguments)

    traced = jax.jit(of_values)
    return lambda *arguments: traced([variable.value for variable in variables], *arguments)


def padded_rows(rows: int) -> NDArray[np.int64]:
    """Return row indices, the last repeated up to a power of two, to compile a function for few shapes."""
    return np.minimum(np.arange(1 << (rows - 1).bit_length()), rows - 1)


def _traced(function: Any) -> Callable[..., Any]:
    """Cache traces by shape: TensorFlow's own lookup takes twice as long as a small step."""
    traces: dict[Any, Callable[..., Any]] = {}

    def call(*arguments: Any) -> Any:
        tensors = keras.tree.map_structure(tf.convert_to_tensor, arguments)
        shape = tuple((tensor.shape, tensor.dtype) for tensor in keras.tree.flatten(tensors))
        trace = traces.get(shape)
        if trace is None:
            trace = traces[shape] = function.get_concrete_function(*tensors)
        return trace(*tensors)

    return call


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if `error` means that device or host memory ran out."""
    if isinstance(error, MemoryError):
        return True
    if BACKEND == "tensorflow":
        return isinstance(error, tf.errors.ResourceExhaustedError)
    # JAX has one class for all runtime errors; the message begins with a code.
    return isinstance(error, jax.errors.JaxRuntimeError) and str(error).startswith("RESOURCE_EXHAUSTED")
