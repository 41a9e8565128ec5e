"""test_logits.py - the engine against transformers, and against itself.

  oracle     logits differ from transformers' in float32 with the same bf16 weights by at most 2e-3
             of their range; greedy text of 5 prompts is equal over 64 tokens
  logprobs   of prompts and answers are transformers', within the same limit
  packed     mma12 and mma give the bits of bf16
  invariant  threads, chunk size and other sequences change no bit

The checkpoints are random ones of every family, and the model in GLYD_TEST_MODEL or
model/SmolLM2-135M-Instruct where there is one.
SPDX-License-Identifier: Apache-2.0
"""
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
torch.set_num_threads(1)  # tiny models: threads would mostly wait for each other

ROOT = Path(__file__).resolve().parents[2]
TOOL = Path(os.environ.get("GLYD_BUILD", ROOT / "build/release")) / "logits_tool"
REAL = Path(os.environ.get("GLYD_TEST_MODEL", ROOT / "model/SmolLM2-135M-Instruct"))
N_GREEDY = 64
LIMIT = 2e-3

LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
        "original_max_position_embeddings": 64}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}

# name: (model type, what differs from BASE)
BASE = dict(vocab_size=320, hidden_size=96, intermediate_size=160, num_hidden_layers=3,
            num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=256,
            tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, initializer_range=0.15)
MODELS = {
    "llama": ("llama", {}),
    "llama-tied": ("llama", dict(tie_word_embeddings=True, num_key_value_heads=6)),
    "llama-mqa": ("llama", dict(num_key_value_heads=1, head_dim=40)),
    "llama-llama3": ("llama", dict(rope_parameters=LLAMA3)),
    "llama-linear": ("llama", dict(rope_parameters=LINEAR)),
    "llama-dynamic": ("llama", dict(rope_parameters=DYNAMIC)),
    "mistral": ("mistral", dict(head_dim=32, sliding_window=None)),
    "mistral-window": ("mistral", dict(head_dim=16, sliding_window=24)),
    "qwen2": ("qwen2", dict(tie_word_embeddings=True)),
    "qwen2-yarn": ("qwen2", dict(rope_parameters=YARN)),
    "qwen3": ("qwen3", dict(head_dim=64, tie_word_embeddings=True)),
    "qwen3-wide": ("qwen3", dict(head_dim=128, num_attention_heads=4, num_key_value_heads=4)),
    "odd": ("llama", dict(hidden_size=90, intermediate_size=77, vocab_size=301,
                          num_attention_heads=5, num_key_value_heads=5)),
}


def call(mode, *args, prompts=()):
    text = "".join(" ".join(map(str, ids)) + "\n" for ids in prompts)
    done = subprocess.run([TOOL, mode, *map(str, args)], input=text.encode(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def logits(folder, ids, threads=2, chunk=64):
    out = np.frombuffer(call("logits", folder, threads, chunk, prompts=[ids]), np.float32)
    return out.reshape(len(ids), -1)


def answers(mode, folder, prompts, n, threads=2, chunk=64):
    out = call(mode, folder, threads, chunk, n, prompts=prompts).decode()
    return [[int(id) for id in line.split()] for line in out.splitlines()]


def make(folder, model_type, changes):
    """A random checkpoint as transformers saves it, with weights that make the logits vary."""
    torch.manual_seed(7)
    config = transformers.AutoConfig.for_model(model_type, **{**BASE, **changes})
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("norm.weight", "bias")):
                weight += 0.1 * torch.randn_like(weight)
    model.to(torch.bfloat16).save_pretrained(folder)


def oracle_of(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").eval()


def prompts_for(vocab, lengths=(1, 7, 33, 64, 100)):
    rng = np.random.default_rng(3)
    return [rng.integers(0, vocab, n).tolist() for n in lengths]


@pytest.fixture(scope="session", params=[*MODELS, "real"])
def model(request, tmp_path_factory):
    """(folder of the bf16 checkpoint, transformers' model)"""
    if request.param == "real":
        if not (REAL / "config.json").exists():
            pytest.skip(f"no model in {REAL}")
        folder = REAL
    else:
        folder = tmp_path_factory.mktemp("models") / request.param
        make(folder, *MODELS[request.param])
    return folder, oracle_of(folder)


@pytest.fixture(scope="session", params=["mma12", "mma"])
def packed(request, model, tmp_path_factory):
    out = tmp_path_factory.mktemp("saves") / request.param
    call("pack", model[0], out, request.param)
    return out


def test_logits_are_transformers(model):
    folder, oracle = model
    for ids in prompts_for(oracle.config.vocab_size, (1, 33, 150)):
        with torch.no_grad():
            want = oracle(torch.tensor([ids])).logits[0].numpy()
        have = logits(folder, ids)
        assert have.shape == want.shape
        error = np.abs(have - want).max() / (want.max() - want.min())
        assert error <= LIMIT


def test_greedy_text_is_transformers(model):
    """Every token of an answer is transformers' first choice after the same text, so the texts are
    equal: one pass over prompt and answer tells."""
    folder, oracle = model
    prompts = prompts_for(oracle.config.vocab_size)
    have = answers("greedy", folder, prompts, N_GREEDY)
    for ids, answer in zip(prompts, have, strict=True):
        assert len(answer) == N_GREEDY
        with torch.no_grad():
            choice = oracle(torch.tensor([ids + answer])).logits[0].argmax(-1).tolist()
        assert choice[len(ids) - 1:-1] == answer


def test_logprobs_are_transformers(model):
    """Of prompt and answer: each token's, its rank, and those of the five likeliest."""
    folder, oracle = model
    for ids in prompts_for(oracle.config.vocab_size, (1, 70)):
        lines = call("logprobs", folder, 2, 64, 12, prompts=[ids]).decode().splitlines()
        rows = [line.split() for line in lines]
        assert [int(row[0]) for row in rows] == list(range(1, len(ids) + 12))
        text = ids[:1] + [int(row[1]) for row in rows]
        assert text[:len(ids)] == ids
        with torch.no_grad():
            want = oracle(torch.tensor([text])).logits[0].double().log_softmax(-1).numpy()
        for i, row in enumerate(rows):
            limit = LIMIT * (want[i].max() - want[i].min())
            own = want[i][int(row[1])]
            assert abs(float(row[2]) - own) <= limit
            rank = int(row[3])
            assert (want[i] > own + 2 * limit).sum() < rank <= (want[i] > own - 2 * limit).sum()
            top, values = [int(x) for x in row[4::2]], np.array(row[5::2], float)
            assert len(set(top)) == 5 and (np.diff(values) <= 0).all()
            assert np.abs(values - want[i][top]).max() <= limit
            assert np.abs(values - np.sort(want[i])[::-1][:5]).max() <= limit


def test_packed_is_bf16(model, packed):
    folder, oracle = model
    prompts = prompts_for(oracle.config.vocab_size)
    assert call("hash", packed, 2, 64, prompts=prompts) == call("hash", folder, 2, 64,
                                                                prompts=prompts)


def test_threads_and_chunks_change_nothing(model):
    folder, oracle = model
    prompts = prompts_for(oracle.config.vocab_size, (1, 45, 90))
    want = call("hash", folder, 1, 64, prompts=prompts)
    for threads, chunk in ((2, 64), (3, 1), (2, 7), (1, 100)):
        assert call("hash", folder, threads, chunk, prompts=prompts) == want


def test_other_sequences_change_nothing(model):
    folder, oracle = model
    prompts = prompts_for(oracle.config.vocab_size)
    alone = answers("greedy", folder, prompts, 24)
    assert answers("together", folder, prompts, 24, chunk=16) == alone
