"""Full disks, killed processes, Ctrl-C: nothing is left that looks like a save.

SPDX-License-Identifier: Apache-2.0
"""
import os
import resource
import signal
import subprocess
import time

import pytest
import tiny
from conftest import PROGRAM, tree

PACK_LIMIT_BYTES = 100_000


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A model that takes a second or so to pack with one thread."""
    folder = tmp_path_factory.mktemp("large")
    config = tiny.config(hidden=512, layers=6, heads=8, kv_heads=8, head_dim=64, ffn=4096, vocab=4096)
    tiny.make(folder / "model", config)
    return folder / "model"


def limit_file_size():
    resource.setrlimit(resource.RLIMIT_FSIZE, (PACK_LIMIT_BYTES, PACK_LIMIT_BYTES))


@pytest.mark.parametrize("command", ["pack", "unpack"])
def test_file_size_limit(glyd, model, save, tmp_path, command):
    source = model if command == "pack" else save
    done = glyd(command, source, tmp_path / "out", preexec_fn=limit_file_size)
    done.is_error(1, "cannot write ", "File too large")
    assert sorted(os.listdir(tmp_path)) == ["model", "save"]


@pytest.mark.parametrize("command", ["pack", "unpack"])
def test_full_disk(glyd, model, save, tmp_path, command):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk],
                      capture_output=True).returncode != 0:
        pytest.skip("this machine does not let tests mount a small disk")
    try:
        source = model if command == "pack" else save
        glyd(command, source, disk / "out").is_error(1, "cannot write ", "No space left on device")
        assert os.listdir(disk) == []
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize("command", ["pack", "verify"])
def test_result_cannot_be_written(glyd, model, save, tmp_path, command):
    with open("/dev/full", "w") as full:
        done = subprocess.run([PROGRAM, command, save] if command == "verify" else
                              [PROGRAM, command, model, tmp_path / "out"],
                              stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "glyd: cannot write the result to standard output\n"


def start(command, source, out):
    """A pack or unpack that has begun to write weights."""
    process = subprocess.Popen([PROGRAM, command, "-t", "1", source, out], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 30
    while not list(out.parent.glob(f".{out.name}.partial-*/*.safetensors")):
        assert process.poll() is None and time.monotonic() < deadline, "it ended before it began"
        time.sleep(0.001)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt(large, tmp_path, number):
    process = start("pack", large, tmp_path / "save")
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (1, "", "glyd: cancelled: nothing was saved\n")
    assert os.listdir(tmp_path) == []


def test_interrupt_of_unpack(glyd, large, tmp_path):
    assert glyd("pack", large, tmp_path / "save").code == 0
    process = start("unpack", tmp_path / "save", tmp_path / "back")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (1, "", "glyd: cancelled: nothing was written\n")
    assert os.listdir(tmp_path) == ["save"]


def test_kill(glyd, large, tmp_path):
    process = start("pack", large, tmp_path / "save")
    process.kill()
    process.communicate(timeout=60)
    left = os.listdir(tmp_path)
    assert left == [f".save.partial-{process.pid}"]
    assert not (tmp_path / left[0] / "glyd.json").exists()
    glyd("verify", tmp_path / left[0]).is_error(1, "has no weights")
    # What was left behind is in nobody's way.
    assert glyd("pack", large, tmp_path / "save").code == 0
    assert glyd("verify", tmp_path / "save").code == 0
    assert glyd("unpack", tmp_path / "save", tmp_path / "back").code == 0
    assert tree(tmp_path / "back") == tree(large)


def test_peak_memory(glyd, large, tmp_path):
    """At most the largest tensor as it is and packed, and 64 MB, mapped pages counted."""
    code = ("import resource, subprocess, sys\n"
            "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    done = subprocess.run(["python3", "-c", code, PROGRAM, "pack", "-t", "2", large,
                           tmp_path / "save"], capture_output=True, text=True, check=True)
    largest = 4096 * 512 * 2
    assert int(done.stdout) * 1024 <= largest + largest * 3 / 4 + (64 << 20)
