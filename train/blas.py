"""Threads of NumPy's products."""

import os

_SET = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")


def one_blas_thread() -> None:
    """Let NumPy's products in this process use one thread, unless the environment sets another number.

    BLAS's threads busy-wait for each other at every product. On idle processors two take a third less time for a
    step of 64 captions; beside other work, as in a server, they take several times as long (`make bench-generate`).
    """
    if any(os.environ.get(name) for name in _SET):
        return
    from threadpoolctl import threadpool_limits

    threadpool_limits(1, "blas")
