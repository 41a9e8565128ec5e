"""make_saves.py - writes the golden saves again, for a format that changed before its release.

    python tests/golden/make_saves.py build/release/glyd

A save of each layout: a tied head that was written out, biases, two shards, escapes, a matrix that
packing would not make smaller, rows and columns that are no multiples of 16 and 64.
SPDX-License-Identifier: Apache-2.0
"""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))
import tiny  # noqa: E402


def main():
    program = sys.argv[1]
    config = tiny.config("qwen2", hidden=120, layers=1, heads=2, kv_heads=1, head_dim=60, ffn=121,
                         vocab=130)
    weights = tiny.tensors(config)
    weights["model.layers.0.mlp.up_proj.weight"].flat[::499] ^= 0x4000
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"].copy()
    weights = dict(sorted(weights.items()))
    for layout in ("mma", "mma12"):
        out = HERE / "saves" / layout
        shutil.rmtree(out, ignore_errors=True)
        out.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as room:
            tiny.make(Path(room) / "golden", config, weights, shards=2)
            subprocess.run([program, "pack", "-l", layout, "--shard-size", "0.0001",
                            Path(room) / "golden", out], check=True)


if __name__ == "__main__":
    main()
