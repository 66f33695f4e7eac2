"""A crew whose workers rest when they have nothing to do, and are hired again for the next round of work."""

from collections.abc import Collection
from typing import Any

from memeloom.engine.crew import Crew, Hand
from memeloom.engine.outcome import Outcome


class Standing:
    """A `Crew` over another one. The supervisor of a round closes it without effect; `end` closes it for good."""

    def __init__(self, crew: Crew) -> None:
        self.size = crew.size
        self._crew = crew
        self._resting: list[_Rested] = []

    def hire(self) -> Hand:
        """A worker that rests, else a new one."""
        return self._resting.pop() if self._resting else _Rested(self._crew.hire(), self._resting)

    def wait(self, hands: Collection[Hand], seconds: float | None) -> list[Hand]:
        """As `Crew.wait`; who was hired from rest is ready at once."""
        ours = [hand for hand in hands if isinstance(hand, _Rested)]
        if ready := [hand for hand in ours if hand.rested]:
            return list(ready)
        inner = {hand.inner: hand for hand in ours}
        return [inner[hand] for hand in self._crew.wait(list(inner), seconds)]

    def close(self) -> None:
        """The round is over; workers stay."""

    def end(self) -> None:
        """Let all go."""
        for hand in self._resting:
            hand.inner.leave()
        self._resting.clear()
        self._crew.close()


class _Rested:
    """A worker of the crew below."""

    def __init__(self, inner: Hand, resting: "list[_Rested]") -> None:
        self.inner = inner
        self.rested = False
        self._resting = resting

    def give(self, partition: object) -> None:
        """Send `partition`."""
        self.inner.give(partition)

    def hear(self) -> Outcome[Any]:
        """What it said; that it is ready, if it comes from rest. Raises Died."""
        if self.rested:
            self.rested = False
            return Outcome()
        return self.inner.hear()

    def leave(self) -> None:
        """Rest until the next round."""
        self.rested = True
        self._resting.append(self)

    def end(self) -> None:
        """Stop it at once."""
        self.inner.end()
