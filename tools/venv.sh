#!/bin/sh
# tools/venv.sh [tests|quickstart]: makes .venv/ (tests) or .venv-quickstart/ once, and again when
# its list of packages changes.
#
# torch serves as the model tests' oracle, on the CPU. Its build on PyPI links CUDA 13, about 3 GB
# of packages that the tests never call; where a CUDA 13 toolkit with cuDNN and NCCL is installed
# its libraries are linked into the environment instead, and only what toolkits lack is downloaded.
set -eu
cd "$(dirname "$0")/.."
what=${1:-tests}
case "$what" in
tests) venv=.venv list=tests/requirements.txt ;;
quickstart) venv=.venv-quickstart list=tools/requirements-quickstart.txt ;;
*) echo "usage: $0 [tests|quickstart]" >&2 && exit 2 ;;
esac
torch=torch==2.11.0
cuda=${CUDA_HOME:-/usr/local/cuda}/lib64

stamp=$(cat "$list" tools/venv.sh | sha256sum)
[ -f $venv/stamp ] && [ "$(cat $venv/stamp)" = "$stamp" ] && exit 0

rm -rf $venv
python3 -m venv $venv
pip="$venv/bin/pip --disable-pip-version-check install -q"
$pip --no-deps -r "$list"
if [ "$what" = tests ]; then
    if [ -e "$cuda/libcublas.so.13" ] && [ -e "$cuda/libcudnn.so.9" ] &&
        [ -e "$cuda/libnccl.so.2" ]; then
        $pip --no-deps $torch nvidia-cufile==1.20.0.107 nvidia-cusparselt-cu13==0.10.0 \
            nvidia-nvshmem-cu13==3.4.5
        # One of the folders that torch's libraries are told to look in.
        nvidia=$(echo $venv/lib/python3*/site-packages)/nvidia
        mkdir -p "$nvidia/cudnn"
        ln -sfn "$cuda" "$nvidia/cudnn/lib"
    else
        $pip $torch
    fi
    $venv/bin/python -c 'import torch'
fi
echo "$stamp" >$venv/stamp
