"""A cache of the entries used last, bounded by the sum of their sizes."""

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
F = TypeVar("F", bound=Callable[..., Any])


class BoundedCache(Generic[K, V]):
    """Keeps the entries used last whose sizes sum up to at most `most`. Safe to share between threads.

    Args:
        most: limit on the sum of all sizes. An entry of more than a quarter of it is not kept.
        size: returns the size of a value.
    """

    def __init__(self, most: int, size: Callable[[V], int]) -> None:
        self._most = most
        self._size = size
        self._held = 0
        self._entries: OrderedDict[K, tuple[int, V]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: K) -> V | None:
        """Return the value of `key`, or None."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[1]

    def put(self, key: K, value: V) -> None:
        """Keep a value; those used longest ago make room."""
        size = self._size(value)
        with self._lock:
            self._held -= self._entries.pop(key, (0, None))[0]
            if size > self._most // 4:
                return
            self._entries[key] = size, value
            self._held += size
            while self._held > self._most:
                _, (freed, _) = self._entries.popitem(last=False)
                self._held -= freed

    @property
    def held(self) -> int:
        """Sum of the sizes of all entries."""
        return self._held

    def keeps(self, function: F) -> F:
        """Decorate a function of hashable positional arguments to keep its values here; None is not kept."""

        @wraps(function)
        def kept(*args: Any) -> Any:
            key: Any = (function, *args)
            value = self.get(key)
            if value is None:
                value = function(*args)
                self.put(key, value)
            return value

        return kept  # type: ignore[return-value]
