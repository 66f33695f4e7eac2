"""Keras, imported in one place: slow (3-8 s, 600 MB on TensorFlow), and loud unless it is told not to be.

Import `keras` from here only. It runs on the backend that KERAS_BACKEND names, TensorFlow or JAX; what only
TensorFlow can do imports it where it does it.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any


@contextmanager
def muted() -> Iterator[None]:
    """Keep what native code writes to standard error; show it only if the body fails.

    TensorFlow's loader logs before it reads TF_CPP_MIN_LOG_LEVEL, so the variable alone is not enough.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as words:
        os.dup2(words.fileno(), 2)
        try:
            yield
        except BaseException:
            words.seek(0)
            os.write(kept, words.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)


os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
with muted():
    import keras

    BACKEND: str = keras.backend.backend()
    if BACKEND == "tensorflow":
        import tensorflow as tf
    else:
        import jax

__all__ = ["ACCELERATED", "BACKEND", "compiled", "holds_short_integers", "is_out_of_memory", "keras", "muted"]

ACCELERATED: bool

if not TYPE_CHECKING:

    def __getattr__(name: str) -> bool:
        """ACCELERATED: whether there is a GPU or the like, found out when it is first asked for.

        JAX settles its devices when it is asked; a process that is one of several must have met the others before.
        """
        if name != "ACCELERATED":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return _accelerated()


@cache
def _accelerated() -> bool:
    if BACKEND == "tensorflow":
        return any(device.device_type != "CPU" for device in tf.config.list_physical_devices())
    return bool(jax.default_backend() != "cpu")


def holds_short_integers() -> bool:
    """Whether variables may hold uint8 and uint16 here.

    TensorFlow's workers send each other the values that variables begin with, and cannot send these.
    """
    return BACKEND != "tensorflow" or tf.distribute.get_strategy().cluster_resolver is None


def compiled(function: Callable[..., Any], *, variables: Sequence[Any] = (), xla: bool = True) -> Callable[..., Any]:
    """`function` of arrays, compiled for the backend; compiled anew for each shape of its arguments.

    variables: Keras variables that `function` reads. JAX would go on with the values that they had when it was
    compiled, so it is handed those of the moment at every call.
    xla: False leaves it to TensorFlow's own kernels; JAX knows nothing but XLA.
    """
    if BACKEND == "tensorflow":
        return _traced(tf.function(function, jit_compile=xla))

    def of_values(values: Sequence[Any], *arguments: Any) -> Any:
        with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
            return function(*arguments)

    traced = jax.jit(of_values)
    return lambda *arguments: traced([variable.value for variable in variables], *arguments)


def _traced(function: Any) -> Callable[..., Any]:
    """The trace that fits the arguments: TensorFlow itself takes twice as long to find it as a small step takes."""
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
    """Whether `error` says that memory, of the device or of the machine, did not suffice."""
    if isinstance(error, MemoryError):
        return True
    if BACKEND == "tensorflow":
        return isinstance(error, tf.errors.ResourceExhaustedError)
    # One class of JAX's stands for everything that goes wrong in a runtime; its text begins with a code.
    return isinstance(error, jax.errors.JaxRuntimeError) and str(error).startswith("RESOURCE_EXHAUSTED")
