"""Keras, imported in one place: slow (3-8 s, 600 MB on TensorFlow), and loud unless it is told not to be.

Import `keras` from here only. It runs on the backend that KERAS_BACKEND names, TensorFlow or JAX; what only
TensorFlow can do imports it where it does it.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def _muted() -> Iterator[None]:
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
with _muted():
    import keras

    BACKEND: str = keras.backend.backend()
    if BACKEND == "tensorflow":
        import tensorflow as tf

        _ACCELERATED = any(device.device_type != "CPU" for device in tf.config.list_physical_devices())
    else:
        import jax

        _ACCELERATED = jax.default_backend() != "cpu"

__all__ = ["ACCELERATED", "BACKEND", "OUT_OF_MEMORY", "compiled", "keras"]

ACCELERATED = _ACCELERATED


def compiled(function: Callable[..., Any], *, xla: bool = True) -> Callable[..., Any]:
    """`function` of arrays, compiled for the backend; compiled anew for each shape of its arguments.

    xla: False leaves it to TensorFlow's own kernels; JAX knows nothing but XLA.
    """
    if BACKEND == "tensorflow":
        step: Callable[..., Any] = tf.function(function, jit_compile=xla)
    else:
        step = jax.jit(function)
    return step


def _out_of_memory() -> tuple[type[Exception], ...]:
    if BACKEND == "tensorflow":
        return tf.errors.ResourceExhaustedError, MemoryError
    return jax.errors.JaxRuntimeError, MemoryError


OUT_OF_MEMORY = _out_of_memory()
