#!/bin/sh
# tools/venv_vllm.sh: makes .venv-vllm/, where vLLM runs on the CPU with glyd's plugin, once, and
# again when what it is made of changes. It lies on top of .venv/ (tools/venv.sh), which has torch and
# transformers; the libraries and the package glyd are used from the working tree, not installed.
set -eu
cd "$(dirname "$0")/.."
venv=.venv-vllm list=tools/requirements-vllm.txt version=0.26.0
[ -x .venv/bin/python ] || { echo "venv_vllm.sh: run tools/venv.sh first" >&2 && exit 1; }

stamp=$(cat "$list" tools/venv_vllm.sh python/pyproject.toml tests/requirements.txt | sha256sum)
[ -f $venv/stamp ] && [ "$(cat $venv/stamp)" = "$stamp" ] && exit 0

rm -rf $venv
python3 -m venv $venv
$venv/bin/pip --disable-pip-version-check install -q --no-deps --only-binary=:all: -r "$list"
site=$(echo $venv/lib/python3*/site-packages)
echo "$PWD"/.venv/lib/python3*/site-packages >"$site/tests.pth"
echo "$PWD/python" >"$site/glyd.pth"

# Two packages as importlib.metadata is to see them: the CPU's build of vLLM goes by another name,
# and vLLM finds plugins by their entry points.
about() { # about NAME VERSION
    mkdir "$site/$1-$2.dist-info"
    printf 'Metadata-Version: 2.1\nName: %s\nVersion: %s\n' "$1" "$2" >"$site/$1-$2.dist-info/METADATA"
    : >"$site/$1-$2.dist-info/RECORD"
}
about vllm "$version+cpu"
about glyd 0
$venv/bin/python - python/pyproject.toml >"$site/glyd-0.dist-info/entry_points.txt" <<'PYTHON'
import sys
import tomllib

with open(sys.argv[1], "rb") as file:
    groups = tomllib.load(file)["project"]["entry-points"]
for group, entries in groups.items():
    print(f"[{group}]")
    for name, target in entries.items():
        print(f"{name} = {target}")
PYTHON
$venv/bin/python -c 'import torch, glyd'
echo "$stamp" >$venv/stamp
