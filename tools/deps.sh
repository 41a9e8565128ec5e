#!/bin/sh
# Installs what the build and the tests need on Debian 12: run as root or with sudo at hand.
set -eu
packages="build-essential cmake ninja-build pkg-config git python3 python3-venv
    libjansson-dev libmicrohttpd-dev libpcre2-dev libutf8proc-dev libedit-dev libssl-dev libcmocka-dev
    clang clang-format libclang-rt-14-dev chromium chromium-driver"
missing=
for package in $packages; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
        missing="$missing $package"
done
[ -n "$missing" ] || exit 0
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -q
# shellcheck disable=SC2086
$sudo apt-get install -q -y --no-install-recommends $missing
