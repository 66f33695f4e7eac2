#!/bin/sh
# Makes sure that the programs or files named as arguments (program:debian-package ...) are there.
# Installs what is missing if it may; else says in one line what to install.
set -eu
missing=""
for pair in "$@"; do
  command -v "${pair%%:*}" >/dev/null 2>&1 || [ -e "${pair%%:*}" ] || missing="$missing ${pair#*:}"
done
[ -n "$missing" ] || exit 0
as_root=""
if [ "$(id -u)" != 0 ]; then
  if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then as_root="sudo -n"; else as_root="no"; fi
fi
if [ "$as_root" = "no" ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "memeloom needs these Debian packages:$missing (apt-get install --no-install-recommends$missing)" >&2
  exit 1
fi
echo "installing Debian packages:$missing" >&2
# shellcheck disable=SC2086  # a list of names, on purpose
if ! $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1; then
  # No package lists yet, or stale ones: fetch them once and try again, this time with its errors shown.
  $as_root apt-get update -qq
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi
