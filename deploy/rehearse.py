"""Builds a target of the Dockerfile without Docker: its own steps, run in clean roots of Debian packages by chroot.

    python deploy/rehearse.py serve FOLDER [-- COMMAND...]

Each stage's root is FOLDER/STAGE, kept for the next time; FOLDER/debian is made by debootstrap. COMMAND, or the image's
own if there is none, is run in the finished root with the image's user, folder and environment. Needs root on Debian,
and the packages `debootstrap` and `rsync`. It knows FROM, ENV, WORKDIR, COPY, RUN, USER, ENTRYPOINT and CMD.
"""

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
SUITE = "trixie"
# Certificates that this machine trusts beside the usual ones, such as a proxy's, through which packages come.
CERTIFICATES = Path("/usr/local/share/ca-certificates")
_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin", "PIP_CERT": _BUNDLE, "SSL_CERT_FILE": _BUNDLE}


@dataclass(frozen=True)
class Image:
    """What the next stage or a container starts from."""

    root: Path
    digest: str
    environment: dict[str, str] = field(default_factory=lambda: dict(_ENVIRONMENT))
    folder: str = "/"
    user: str = "root"
    entry: tuple[str, ...] = ()
    command: tuple[str, ...] = ()

    def run(self, command: Sequence[str]) -> int:
        """Run a command in the root; return its exit code."""
        named = [f"{name}={value}" for name, value in {"HOME": self._home, **self.environment}.items()]
        inside = f"cd {shlex.quote(self.folder)} && exec {shlex.join(command)}"
        apart = ["unshare", "--mount", "--pid", "--fork", f"--mount-proc={self.root}/proc", "chroot"]
        shell = [f"--userspec={self.user}", str(self.root), "/usr/bin/env", "-i", *named, "/bin/sh", "-c", inside]
        return subprocess.call([*apart, *shell])

    @property
    def _home(self) -> str:
        return "/root" if self.user == "root" else f"/home/{self.user}"


def instructions(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the instructions of a Dockerfile and their arguments, with continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", path.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    for line in text.splitlines():
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            yield name, rest.strip()


def build(target: str, folder: Path) -> Image:
    """Run the steps of `target` and of the stages that it needs; unchanged ones are not run again."""
    stages: dict[str, list[tuple[str, str]]] = {}
    for name, rest in instructions(HERE / "Dockerfile"):
        if name == "FROM":
            source, _, stage = rest.partition(" AS ")
            stages[stage] = [("FROM", source)]
        else:
            stages[stage].append((name, rest))
    if target not in stages:
        sys.exit(f"the Dockerfile has no target {target!r}; there are {', '.join(stages)}")
    return _stage(target, stages, folder)


def _stage(name: str, stages: dict[str, list[tuple[str, str]]], folder: Path) -> Image:
    (_, source), *steps = stages[name]
    parent = _stage(source, stages, folder) if source in stages else _debian(folder)
    image, done = replace(parent, root=folder / name), folder / f"{name}.steps"
    named = {rest: re.match(r"--from=(\S+) ", rest) for _, rest in steps}
    others = {rest: _stage(found[1], stages, folder) for rest, found in named.items() if found}
    digests = [parent.digest]
    for step, rest in steps:
        context = others[rest].digest if rest in others else _context(rest) if step == "COPY" else ""
        digests.append(hashlib.sha256(f"{digests[-1]} {step} {rest} {context}".encode()).hexdigest())
    known = done.read_text().split() if done.exists() else []
    if not known or known != digests[: len(known)]:
        _call("rsync", "-aHAX", "--delete", "--exclude=/proc/*", f"{parent.root}/", f"{image.root}/")
        known = digests[:1]
    for number, (step, rest) in enumerate(steps, 1):
        if step in ("RUN", "COPY") and number >= len(known):
            sys.stderr.write(f"{name}: {step} {rest}\n")
            done.unlink(missing_ok=True)  # what a failed step leaves is not a root to go on with
            if step == "COPY":
                _copy(image, rest, others.get(rest))
            elif code := image.run(["/bin/sh", "-c", rest]):
                sys.exit(f"{name}: exit code {code} of: {rest}")
        image = _with(image, step, rest)
        if number >= len(known):
            done.write_text("\n".join(digests[: number + 1]))
    return replace(image, digest=digests[-1])


def _with(image: Image, step: str, rest: str) -> Image:
    """Return the image after an instruction that runs nothing."""
    if step == "ENV":
        named = dict(each.split("=", 1) for each in shlex.split(rest))
        known = image.environment
        return replace(image, environment=known | {n: v.replace("$PATH", known["PATH"]) for n, v in named.items()})
    if step == "WORKDIR":
        (image.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        return replace(image, folder=rest)
    if step == "USER":
        return replace(image, user=rest)
    if step == "ENTRYPOINT":
        return replace(image, entry=tuple(json.loads(rest)))
    return replace(image, command=tuple(json.loads(rest))) if step == "CMD" else image


def _copy(image: Image, rest: str, other: Image | None) -> None:
    *sources, target = [each for each in rest.split() if not each.startswith("--")]
    place = image.root / target.lstrip("/")
    if other is not None:
        _call("rsync", "-aHAX", "--delete", f"{other.root}{sources[0]}/", f"{place}/")
        return
    place.mkdir(parents=True, exist_ok=True)
    _call("rsync", "-aL", "--exclude=__pycache__", *(str(HERE.parent / each) for each in _copied(sources)), f"{place}/")


def _copied(sources: Sequence[str]) -> list[str]:
    """Return what a COPY from the checkout copies."""
    kept = (HERE / "Dockerfile.dockerignore").read_text().split()
    return [each[1:] for each in kept if each.startswith("!")] if "." in sources else list(sources)


def _context(rest: str) -> str:
    """Return a digest of what a COPY from the checkout copies."""
    paths = _copied(rest.split()[:-1])
    digest = hashlib.sha256()
    for command in (["ls-files", "-s"], ["diff", "HEAD"]):
        told = subprocess.run(["git", *command, "--", *paths], cwd=HERE.parent, capture_output=True, check=True)
        digest.update(told.stdout)
    return digest.hexdigest()


def _debian(folder: Path) -> Image:
    root = folder / "debian"
    if not (root / "etc/debian_version").exists():
        _call("debootstrap", "--variant=minbase", SUITE, str(root))
        _call("rsync", "-r", f"{CERTIFICATES}/", str(root / CERTIFICATES.relative_to("/")))
    return Image(root, SUITE)


def _call(*command: str) -> None:
    if subprocess.call(command):
        sys.exit(f"failed: {shlex.join(command)}")


def main() -> None:
    """Build the target that the command line names, and run a command in it."""
    target, place, *rest = sys.argv[1:] or [""] * 2
    if not place or os.geteuid():
        sys.exit(__doc__)
    image = build(target, Path(place).resolve())
    sys.exit(image.run([*image.entry, *(rest[1:] or image.command)]))


if __name__ == "__main__":
    main()
