"""The miniature internet as a whole: settings, log, start and end."""

import gzip
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from PIL import Image

from memeloom.configs.errors import ConfigError
from memeloom.configs.load import load_config
from memeloom.demo.context import HOSTS
from memeloom.demo.internet import Internet

Fetch: TypeAlias = Callable[..., Any]


def test_its_settings_are_valid_overrides(internet: Internet) -> None:
    config = load_config(overrides=internet.settings, environment={})
    assert config.crawl.imgflip.site == internet.url("imgflip")
    assert config.crawl.reddit.api == internet.url("reddit_api")
    assert config.crawl.images.bing == internet.url("bing")
    assert config.crawl.images.google == internet.url("google")
    assert config.crawl.allow_hosts == ("127.0.0.1",)
    assert config.crawl.reddit.subreddits == ("memes", "dankmemes")


def test_every_host_has_a_loopback_port_and_a_robots_txt(internet: Internet, fetch: Fetch) -> None:
    assert set(internet.addresses) == set(HOSTS)
    assert len(set(internet.addresses.values())) == len(HOSTS)
    for host, address in internet.addresses.items():
        assert address.startswith("127.0.0.1:")
        if host != "control":
            assert fetch(internet.url(host, "/robots.txt")).text.startswith("User-agent: *")


def test_the_same_arguments_give_the_same_bytes_in_another_process(internet: Internet, fetch: Fetch) -> None:
    with Internet(memes=480, posts=45) as twin:
        paths = ("/meme/Lecture-Owl?sort=latest", "/memetemplates", "/meme/Summit-Goat?page=2")
        for path in paths:
            pages = [fetch(net.url("imgflip", path)).text for net in (internet, twin)]
            images = [net.addresses["imgflip_images"] for net in (internet, twin)]
            assert pages[0].replace(images[0], images[1]) == pages[1]
        for theirs, ours in list(zip(twin.served(), internet.served(), strict=True))[::40]:
            assert fetch(theirs.image_url).body == fetch(ours.image_url).body


def test_the_ground_truth_holds_every_meme_once(internet: Internet) -> None:
    memes = list(internet.served())
    counts = {source: sum(meme.source == source for meme in memes) for source in ("imgflip", "reddit", "images")}
    assert len({meme.id for meme in memes}) == len(memes) == sum(counts.values())
    assert counts["imgflip"] == 480
    assert counts["images"] == 150
    assert counts["reddit"] > 60


def test_the_log_counts_requests_by_route_and_pictures_by_address(fetch: Fetch) -> None:
    with Internet(memes=24) as internet:
        meme = next(internet.served(hashes=True))
        for _ in range(2):
            fetch(meme.image_url)
        fetch(internet.url("imgflip", "/meme/Lonely-Cactus"))
        fetch(internet.url("imgflip", "/meme/No-Such"))
        fetch(internet.url("imgflip", "/no/such/path"))
        log = internet.log()
        assert log["requests"]["imgflip"] == {"/meme/{slug}": {"200": 1, "404": 1}, "unknown": {"404": 1}}
        assert log["pictures"] == {meme.image_url: {"times": 2, "sha256": meme.sha256}}
        assert log["faults"] == {}


def test_damaged_pictures_are_not_logged_as_sent(fetch: Fetch) -> None:
    with Internet(memes=12, faults={"cut_file": 1.0}) as internet:
        meme = next(internet.served(hashes=True))
        spoilt = fetch(meme.image_url).body
        assert internet.log()["pictures"] == {}
        whole = fetch(meme.image_url).body
        assert len(whole) > len(spoilt)
        assert internet.log()["pictures"][meme.image_url]["sha256"] == hashlib.sha256(whole).hexdigest()


def test_quick_memes_share_pictures_and_differ_in_bytes(fetch: Fetch, decode: Callable[[bytes], Image.Image]) -> None:
    with Internet(memes=20_000, quick=True, variety=True) as quick:
        memes = [meme for meme in quick.served(hashes=True) if meme.source == "imgflip"]
        assert len(memes) == 20_000
        plain = [meme for meme in memes if meme.flaw is None]
        assert len({meme.sha256 for meme in plain}) == len(plain) > 17_000
        gif, several = (next(m for m in memes if m.kind == kind) for kind in ("animated", "several"))
        for meme in (memes[0], memes[1], gif, several):
            body = fetch(meme.image_url).body
            assert hashlib.sha256(body).hexdigest() == meme.sha256
            decode(body)
        first, second = (decode(fetch(meme.image_url).body).tobytes() for meme in memes[:2])
        assert first == second, "only the comment differs"


def test_latency_delays_all_responses_but_those_of_the_control_host(fetch: Fetch) -> None:
    with Internet(memes=12, latency=0.5) as far, ThreadPoolExecutor(8) as pool:
        url = far.url("imgflip", "/robots.txt")
        began = time.monotonic()
        assert {answer.status for answer in pool.map(fetch, [url] * 8)} == {200}
        assert time.monotonic() - began >= 0.5
        assert far.log()["requests"]["imgflip"]["/robots.txt"] == {"200": 8}


def test_stop_frees_the_ports_and_is_idempotent(fetch: Fetch) -> None:
    internet = Internet(memes=12)
    internet.start()
    url = internet.url("imgflip", "/memetemplates")
    assert fetch(url).status == 200
    internet.stop()
    internet.stop()
    with pytest.raises(ConnectionRefusedError):
        fetch(url)


def test_unservable_arguments_are_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--data: cannot read"), Internet(data=tmp_path):
        pytest.fail("it started")
    with pytest.raises(ConfigError, match="captions, not"), Internet(memes=10_000_000):
        pytest.fail("it started")


def test_a_broken_caption_file_names_the_file(data_folder: Path) -> None:
    (data_folder / "imgflip_captions.jsonl.gz").write_bytes(gzip.compress(b"{"))
    with pytest.raises(ConfigError, match=r"imgflip_captions\.jsonl\.gz"), Internet(data=data_folder):
        pytest.fail("it started")


PARENT = """
import sys, time
from memeloom.demo.internet import Internet
if __name__ == "__main__":
    internet = Internet(memes=12)
    internet.start()
    print(internet.url("imgflip", "/memetemplates"), flush=True)
    time.sleep(60)
"""


def test_the_server_exits_when_its_parent_is_killed(tmp_path: Path, fetch: Fetch) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    root = str(Path(__file__).parents[2])
    environment = os.environ | {"PYTHONPATH": root}
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        url = parent.stdout.readline().strip()
        assert fetch(url).status == 200
        parent.send_signal(signal.SIGKILL)
        parent.wait(10)
        deadline = time.monotonic() + 10
        while True:
            try:
                fetch(url)
            except OSError:
                break
            assert time.monotonic() < deadline, "the server outlives its parent"
            time.sleep(0.05)


def test_serving_prints_the_addresses_on_stderr_and_ends_on_ctrl_c() -> None:
    root = Path(__file__).parents[2]
    # A test run in the background of a shell ignores Ctrl-C, and so would its children.
    script = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from memeloom.demo.__main__ import main
main(["--memes", "12"])
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root) as server:
        assert server.stderr is not None
        lines = [server.stderr.readline() for _ in range(len(HOSTS) + 2)]
        server.send_signal(signal.SIGINT)
        output, errors = server.communicate(timeout=20)
    assert lines[0].startswith("imgflip ")
    assert lines[-1].startswith("memeloom --set crawl.imgflip.site=http://127.0.0.1:")
    assert output == ""
    assert "Traceback" not in errors
    assert server.returncode == 0
