"""Blocking work holds up neither other requests nor the end of the server."""

import asyncio
import threading
import time
from typing import Any

import pytest

from memeloom.configs.schema import Config
from memeloom.serve.http import resources
from memeloom.serve.http.problems import Problem
from memeloom.serve.http.resources import Resources
from memeloom.serve.http.threads import Threads


def test_searches_hold_up_no_drawing(config: Config) -> None:
    """A search for a text takes up to two seconds."""

    async def scenario() -> None:
        async with Resources(config) as shared:
            release = threading.Event()
            searching = [asyncio.create_task(shared.search(release.wait, 30)) for _ in range(20)]
            await asyncio.sleep(0)
            async with asyncio.timeout(20):
                assert await shared.run(int, 7) == 7
            release.set()
            assert all(await asyncio.gather(*searching))

    asyncio.run(scenario())


def test_a_call_that_does_not_end_does_not_hold_up_the_shutdown(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "_CLOSE_SECONDS", 0.2)
    release, started = threading.Event(), time.monotonic()

    async def scenario() -> Any:
        async with Resources(config) as shared:
            stuck = asyncio.create_task(shared.run(release.wait, 60))
            await asyncio.sleep(0.05)
        return stuck

    asyncio.run(scenario())
    assert time.monotonic() - started < 20
    release.set()


def test_closing_drops_the_calls_that_wait_and_reports_those_that_run() -> None:
    async def scenario() -> None:
        threads, release = Threads(1, 5, "test"), threading.Event()
        running, waiting = (asyncio.create_task(threads.run(release.wait, 30)) for _ in range(2))
        await asyncio.sleep(0.05)
        assert not await asyncio.to_thread(threads.close, 0.05)
        with pytest.raises(asyncio.CancelledError):
            await waiting
        release.set()
        assert await running
        assert await asyncio.to_thread(threads.close, 20)

    asyncio.run(scenario())


def test_errors_reach_the_caller_and_calls_beyond_the_queue_are_refused() -> None:
    async def scenario() -> None:
        threads, release = Threads(1, 1, "test"), threading.Event()
        with pytest.raises(ZeroDivisionError):
            await threads.run(divmod, 1, 0)
        running = [asyncio.create_task(threads.run(release.wait, 30)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Problem, match="busy"):
            await threads.run(int)
        release.set()
        await asyncio.gather(*running)
        threads.close(20)

    asyncio.run(scenario())
