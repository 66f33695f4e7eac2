"""Build a release in `build/release`: sdist, wheel, software bill of materials (CycloneDX), and sha256 of each.

    python deploy/release.py               of the tag that is checked out
    python deploy/release.py --snapshot    of any commit, to try it

The wheel is built from the sdist, so the sdist is complete, and must equal the one of the checkout. docs/releasing.md
has all steps.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).resolve().parents[1]
OUTPUT: Final = ROOT / "build" / "release"
_RELEASE = re.compile(r"\d+\.\d+\.\d+")


def main() -> None:
    """Build the release; exit with a line if something is missing."""
    snapshot = sys.argv[1:] == ["--snapshot"]
    if sys.argv[1:] and not snapshot:
        sys.exit(__doc__)
    version = _call(sys.executable, "-m", "setuptools_scm").strip()
    if not snapshot:
        if not _RELEASE.fullmatch(version):
            sys.exit(f"this is {version}, not a release: check out a tag such as v0.2.0, without changes")
        changelog_section((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir(parents=True)
    wheel = build(version)
    bill = OUTPUT / f"{wheel.name.split('-py3')[0]}.cdx.json"
    bill.write_text(bill_of_materials(version), encoding="utf-8")
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(OUTPUT.iterdir())]
    (OUTPUT / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")
    sys.stdout.write(f"memeloom {version} in {OUTPUT}\n{''.join(sums)}")


def changelog_section(text: str, version: str) -> str:
    """Return what the changelog says of a version. Exits if there is no section with a date, or nothing in it."""
    found = re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    )
    if found is None:
        sys.exit(f"CHANGELOG.md has no section '## [{version}] - DATE'")
    if not re.search(r"^- ", found[1], re.MULTILINE):
        sys.exit(f"CHANGELOG.md says nothing of {version}")
    return found[1].strip()


def build(version: str) -> Path:
    """Build sdist and wheel with the packages of this environment, without a network. Returns the wheel."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": _commit_time(), "SETUPTOOLS_SCM_PRETEND_VERSION": version}
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "checkout"
        # A build leaves files in the folder that it builds.
        _call("git", "clone", "-q", "--shared", str(ROOT), str(copy))
        _build("sdist", copy, OUTPUT, environment)
        (sdist,) = OUTPUT.glob("*.tar.gz")
        shutil.unpack_archive(sdist, Path(scratch) / "unpacked", filter="data")
        (unpacked,) = (Path(scratch) / "unpacked").iterdir()
        # Where there is neither git nor a version in the environment, the sdist states its own.
        plain = {name: value for name, value in environment.items() if not name.startswith("SETUPTOOLS_SCM")}
        _build("wheel", unpacked, OUTPUT, plain)
        _build("wheel", copy, Path(scratch), environment)
        (wheel,), (other,) = OUTPUT.glob("*.whl"), Path(scratch).glob("*.whl")
        if wheel.name != other.name or _contents(wheel) != _contents(other):
            sys.exit(f"the sdist builds {wheel.name} with other files than the checkout: is one missing in it?")
    return wheel


def _build(kind: str, source: Path, output: Path, environment: Mapping[str, str]) -> None:
    code = f"import sys, setuptools.build_meta as b; b.build_{kind}(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(output)], cwd=source, env=dict(environment), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"the {kind} cannot be built: {done.stderr.strip()[-500:]}")


def _contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/RECORD")}


def bill_of_materials(version: str) -> str:
    """Return the bill of materials of `memeloom[all]` as installed here, in CycloneDX JSON. Exits if it is invalid."""
    command = [
        "environment", sys.prefix, "--pyproject", str(ROOT / "pyproject.toml"), "--mc-type", "application",
        "--spec-version", "1.6", "--output-reproducible", "--no-validate", "--output-format", "JSON",
        "--output-file", "-",
    ]  # fmt: skip
    made: dict[str, Any] = json.loads(_call(sys.executable, "-m", "cyclonedx_py", *command))
    made["metadata"]["component"].update(version=version, purl=f"pkg:pypi/memeloom@{version}")
    used = closure("memeloom", {"all"})
    made["components"] = [each for each in made["components"] if canonicalize_name(each["name"]) in used - {"memeloom"}]
    kept = {each["bom-ref"] for each in made["components"]} | {made["metadata"]["component"]["bom-ref"]}
    made["dependencies"] = [
        {**each, **({"dependsOn": on} if (on := [ref for ref in each.get("dependsOn", ()) if ref in kept]) else {})}
        if "dependsOn" in each else each
        for each in made["dependencies"] if each["ref"] in kept
    ]  # fmt: skip
    text = f"{json.dumps(made, indent=1)}\n"
    if fault := bill_fault(text):
        sys.exit(f"the bill of materials is not valid CycloneDX: {fault}")
    return text


def bill_fault(text: str) -> str:
    """Return what is wrong with CycloneDX JSON by its schema, or ""."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    return str(JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) or "")


def closure(name: str, extras: set[str], known: dict[str, set[str]] | None = None) -> set[str]:
    """Return the canonical names of an installed package and of all that it needs here with these extras."""
    known = {} if known is None else known
    done = known.setdefault(canonicalize_name(name), set())
    for text in distribution(name).requires or ():
        needed = Requirement(text)
        wanted = {"", *extras}
        if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in wanted):
            inner = canonicalize_name(needed.name)
            if inner not in known or not set(needed.extras) <= known[inner]:
                known.setdefault(inner, set()).update(needed.extras)
                closure(needed.name, set(needed.extras), known)
    done |= extras
    return set(known)


def _commit_time() -> str:
    return _call("git", "-C", str(ROOT), "log", "-1", "--format=%ct").strip()


def _call(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command[:4])} failed: {done.stderr.strip()[-500:]}")
    return done.stdout


if __name__ == "__main__":
    main()
