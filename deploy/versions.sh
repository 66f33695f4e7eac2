#!/usr/bin/env bash
# Resolve the lowest and the newest versions that pyproject.toml allows.
#
#   deploy/versions.sh          only resolve
#   deploy/versions.sh --demo   also run a short demo with each set of versions, in environments of their own
set -euo pipefail
cd "$(dirname "$0")/.."
uv=${UV:-uv}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for which in lowest-direct highest; do
  for python in 3.11 3.13; do
    "$uv" pip compile -q --resolution "$which" --python-version "$python" --no-annotate --no-header \
      --extra all pyproject.toml -o "$folder/$which-$python.txt"
    echo "$which, Python $python: $(wc -l <"$folder/$which-$python.txt") packages"
  done
  [ "${1:-}" = --demo ] || continue
  export VIRTUAL_ENV="$folder/$which"
  "$uv" venv -q "$VIRTUAL_ENV"
  python=$("$VIRTUAL_ENV/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  [ -e "$folder/$which-$python.txt" ] || { echo "run it with Python 3.11 or 3.13, not $python" >&2; exit 2; }
  "$uv" pip install -q -r "$folder/$which-$python.txt"
  "$uv" pip install -q --no-deps .
  "$VIRTUAL_ENV/bin/memeloom" -s train.steps=100 -s train.steps_per_epoch=50 \
    demo --memes 300 --folder "$folder/demo-$which" >"$folder/log" 2>&1 || { tail -3 "$folder/log" >&2; exit 1; }
  echo "$which: the demo ran"
done
