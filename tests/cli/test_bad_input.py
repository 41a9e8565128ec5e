"""Checkpoints that cannot be packed: one clear line, the right exit code, nothing left behind.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import struct

import numpy as np
import pytest
import tiny
from conftest import tree

WEIGHTS = "model.safetensors"
Q = "model.layers.0.self_attn.q_proj.weight"
NORM = "model.norm.weight"


@pytest.fixture
def refuses(glyd, model, tmp_path):
    """Pack the (spoilt) model: it must fail with these words and leave nothing."""
    def check(code, *texts, args=()):
        before = tree(model) if model.is_dir() else None
        glyd("pack", *args, model, tmp_path / "save").is_error(code, *texts)
        assert sorted(os.listdir(tmp_path)) == ["model"]
        assert before is None or tree(model) == before
    return check


def rewrite(model, head=None, drop=(), **changes):
    weights = {n: a for n, a in tiny.tensors(tiny.config()).items() if n not in drop}
    weights.update({n.replace("__", "."): a for n, a in changes.items()})
    tiny.write_safetensors(model / WEIGHTS, weights, head)
    return weights


def entries():
    return tiny.header(tiny.tensors(tiny.config()))


def configure(model, **changes):
    config = {**tiny.config(), **changes}
    tiny.write_json(model / "config.json", {k: v for k, v in config.items() if v != "absent"})


# --- the folder ---

def test_no_folder(glyd, tmp_path):
    glyd("pack", tmp_path / "none", tmp_path / "save").is_error(1, "there is no folder", "none")
    glyd("verify", tmp_path / "none").is_error(1, "there is no folder")
    glyd("unpack", tmp_path / "none", tmp_path / "x").is_error(1, "there is no folder")
    glyd("plan", tmp_path / "none").is_error(1, "there is no folder")


def test_not_a_folder(glyd, model, tmp_path):
    glyd("pack", model / WEIGHTS, tmp_path / "save").is_error(1, "is not a folder")


def test_no_config(model, refuses):
    (model / "config.json").unlink()
    refuses(1, "has no config.json: it is no Hugging Face model folder")


def test_config_is_not_json(model, refuses):
    (model / "config.json").write_text('{"model_type": "llama",')
    refuses(3, "config.json: line 1, column")


def test_no_weights(model, refuses):
    (model / WEIGHTS).unlink()
    refuses(1, "has no weights: neither model.safetensors nor model.safetensors.index.json")


def test_other_weights(model, refuses):
    os.rename(model / WEIGHTS, model / "pytorch_model.bin")
    refuses(1, "holds pytorch_model.bin", "safetensors only", "save_pretrained")


def test_a_save_again(glyd, save, tmp_path):
    glyd("pack", save, tmp_path / "again").is_error(3, "is a glyd save already")


def test_a_checkpoint_is_no_save(glyd, model, tmp_path):
    for command in (["verify", model], ["unpack", model, tmp_path / "x"]):
        glyd(*command).is_error(3, "is no glyd save: it has no glyd.json")


# --- safetensors ---

def test_empty_file(model, refuses):
    (model / WEIGHTS).write_bytes(b"")
    refuses(3, "model.safetensors has 0 bytes: too short for a safetensors file")


@pytest.mark.parametrize("size", [2**63, 2**64 - 1, 2**62, 100_000_001])
def test_huge_header(model, refuses, size):
    data = (model / WEIGHTS).read_bytes()
    (model / WEIGHTS).write_bytes(struct.pack("<Q", size) + data[8:])
    refuses(3, f"a header of {size} bytes is over the format's limit of 100000000")


def test_header_beyond_the_file(model, refuses):
    (model / WEIGHTS).write_bytes(struct.pack("<Q", 5000) + b"{}")
    refuses(3, "the header should have 5000 bytes, but the file ends after 2: it is cut short")


@pytest.mark.parametrize("keep", [0.01, 0.5, 0.999999])
def test_truncated(model, refuses, keep):
    data = (model / WEIGHTS).read_bytes()
    (model / WEIGHTS).write_bytes(data[:int(len(data) * keep)])
    refuses(3, "cut short")


def test_bytes_at_the_end(model, refuses):
    with open(model / WEIGHTS, "ab") as file:
        file.write(b"xyz")
    refuses(3, "3 bytes after the last tensor belong to no tensor")


def test_header_is_not_an_object(model, refuses):
    rewrite(model, head=b"[]      ")
    refuses(3, "the header is not a JSON object: this is no safetensors file")


def test_header_is_not_json(model, refuses):
    rewrite(model, head=b'{"a": nonsense}')
    refuses(3, "model.safetensors: line 1, column")


def test_header_is_not_utf8(model, refuses):
    rewrite(model, head=b'{"\xff\xfe": {}}')
    refuses(3, "model.safetensors: line 1, column 2: unable to decode byte 0xff")


def test_duplicate_name(model, refuses):
    head = json.dumps(entries())
    rewrite(model, head=head.replace(Q, NORM).encode())
    refuses(3, "duplicate")


SPOILS = [
    ("overlap", lambda e: e[Q].update(data_offsets=[o - 64 for o in e[Q]["data_offsets"]]),
     f"tensor {Q} overlaps tensor"),
    ("hole", lambda e: [e[n].update(data_offsets=[o + 64 for o in e[n]["data_offsets"]])
                        for n in list(e)[3:]], "64 bytes before tensor"),
    ("backwards", lambda e: e[Q].update(data_offsets=e[Q]["data_offsets"][::-1]),
     f"tensor {Q} ends before it begins"),
    ("negative", lambda e: e[Q].update(data_offsets=[-1, 100]), f"tensor {Q} has no two data_offsets"),
    ("fraction", lambda e: e[Q].update(data_offsets=[0.5, 100]), f"tensor {Q} has no two data_offsets"),
    ("one offset", lambda e: e[Q].update(data_offsets=[5]), f"tensor {Q} has no two data_offsets"),
    ("too large", lambda e: e[Q].update(data_offsets=[0, 2**63 - 1]), "but its data_offsets give it"),
    ("beyond 64 bits", lambda e: e[Q].update(data_offsets=[0, 2**64]), "model.safetensors: "),
    ("shape and bytes", lambda e: e[Q].update(shape=[128, 127]), "takes 32512 bytes, but its data_offsets"),
    ("overflow", lambda e: e[Q].update(shape=[2**32, 2**32]), "more elements than 64 bits can count"),
    ("negative shape", lambda e: e[Q].update(shape=[-128, -128]), "dimension 0 is not a whole number"),
    ("no shape", lambda e: e[Q].update(shape="128"), f"tensor {Q} has no shape"),
    ("nine dimensions", lambda e: e[Q].update(shape=[1] * 9), "has 9 dimensions; at most 8 are read"),
    ("dtype", lambda e: e[Q].update(dtype="BF17"), "unknown dtype BF17"),
    ("no dtype", lambda e: e[Q].update(dtype=None), f"tensor {Q} has no dtype"),
    ("half a byte", lambda e: e[Q].update(dtype="F4", shape=[3]), "does not end on a whole byte"),
    ("member missing", lambda e: e[Q].pop("dtype"), "must have dtype, shape and data_offsets"),
    ("member more", lambda e: e[Q].update(more=1), "must have dtype, shape and data_offsets"),
    ("not an object", lambda e: e.update({Q: 5}), "is not an object"),
    ("metadata", lambda e: e.update(__metadata__=[]), "__metadata__ is not an object"),
    ("metadata value", lambda e: e.update(__metadata__={"n": 5}), '__metadata__ "n" is not a string'),
]


@pytest.mark.parametrize("spoil,text", [s[1:] for s in SPOILS], ids=[s[0] for s in SPOILS])
def test_header(model, refuses, spoil, text):
    head = entries()
    spoil(head)
    rewrite(model, head=head)
    refuses(3, text)


# --- tensors against the config ---

def test_missing_tensor(model, refuses):
    rewrite(model, drop=[Q])
    refuses(3, f"tensor {Q} is missing")


def test_missing_layer(model, refuses):
    configure(model, num_hidden_layers=3)
    refuses(3, "tensor model.layers.2.", "is missing")


def test_missing_head(model, refuses):
    configure(model, tie_word_embeddings=False)
    refuses(3, "tensor lm_head.weight is missing")


def test_extra_tensor(model, refuses):
    rewrite(model, extra__weight=tiny.to_bf16(np.ones((16, 16))))
    refuses(3, "tensor extra.weight is extra")


def test_extra_layer(model, refuses):
    configure(model, num_hidden_layers=1)
    refuses(3, "tensor model.layers.1.", "is extra")


def test_extra_bias(model, refuses):
    weights = tiny.tensors(tiny.config())
    weights["model.layers.0.self_attn.q_proj.bias"] = tiny.to_bf16(np.ones(128))
    tiny.write_safetensors(model / WEIGHTS, weights)
    refuses(3, "tensor model.layers.0.self_attn.q_proj.bias is extra")


def test_rotary_frequencies_are_no_extra(glyd, model, tmp_path):
    weights = tiny.tensors(tiny.config())
    weights["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(16, np.float32)
    tiny.write_safetensors(model / WEIGHTS, weights)
    assert glyd("pack", model, tmp_path / "save").code == 0


def test_wrong_shape(model, refuses):
    weights = tiny.tensors(tiny.config())
    weights[Q] = weights[Q].reshape(256, 64)
    tiny.write_safetensors(model / WEIGHTS, weights)
    refuses(3, f"tensor {Q} has the shape [256, 64], but config.json asks for [128, 128]")


@pytest.mark.parametrize("dtype,name", [(np.float16, "F16"), (np.float32, "F32")])
def test_float_checkpoint(model, refuses, dtype, name):
    tiny.write_safetensors(model / WEIGHTS, {n: np.ones(a.shape, dtype) for n, a in
                                             tiny.tensors(tiny.config()).items()})
    refuses(1, f"is {name}, and glyd holds bf16 weights: convert the checkpoint", "bfloat16")
    refuses(1, f"is {name}, and glyd holds bf16 weights: convert the checkpoint", args=["--any"])


def test_fp8_checkpoint(model, refuses):
    tiny.write_safetensors(model / WEIGHTS, {n: np.ones(a.shape, np.uint8) for n, a in
                                             tiny.tensors(tiny.config()).items()})
    refuses(1, "is F8_E4M3, and glyd holds bf16 weights: take the bf16 checkpoint")


def test_quantized_config(model, refuses):
    configure(model, quantization_config={"quant_method": "fp8"})
    refuses(1, "the weights are quantized (fp8): take the bf16 checkpoint")


def test_stray_float_norm(model, refuses):
    weights = tiny.tensors(tiny.config())
    weights[NORM] = np.ones(128, np.float32)
    tiny.write_safetensors(model / WEIGHTS, weights)
    refuses(1, f"tensor {NORM} is F32, and glyd holds bf16 weights", 'dtype="bfloat16"')


def test_odd_offset(model, refuses):
    weights = tiny.tensors(tiny.config())
    text = json.dumps(tiny.header(weights)).encode()
    tiny.write_safetensors(model / WEIGHTS, weights, text + b" " * (1 - len(text) % 2))
    refuses(1, "begins at an odd byte of its file")


# --- config.json ---

CONFIGS = [
    (dict(model_type="gpt2"), 1, 'models of type "gpt2" are not supported; llama, mistral, qwen2'),
    (dict(model_type="absent"), 3, '"model_type" is missing'),
    (dict(model_type=5), 3, '"model_type" must be a string'),
    (dict(hidden_size="absent"), 3, '"hidden_size" is missing'),
    (dict(hidden_size=-1), 3, '"hidden_size" is -1; it must be between 1 and'),
    (dict(hidden_size="128"), 3, '"hidden_size" must be an integer'),
    (dict(num_hidden_layers=10**9), 3, '"num_hidden_layers" is 1000000000'),
    (dict(num_key_value_heads=3), 3, "4 heads cannot share 3 key and value heads evenly"),
    (dict(head_dim=33), 1, "heads of 33 values; an even number is needed"),
    (dict(hidden_act="gelu"), 1, 'the activation "gelu" is not supported; silu is'),
    (dict(attention_bias=True), 1, '"attention_bias" is true, which is not supported'),
    (dict(mlp_bias=True), 1, '"mlp_bias" is true, which is not supported'),
    (dict(rope_scaling={"rope_type": "longrope"}), 1, 'the rope type "longrope" is not supported'),
    (dict(rope_scaling={"rope_type": "linear"}), 3, '"factor" is missing'),
    (dict(rope_scaling={"type": "linear", "factor": 0}), 3, '"factor" must be a positive number'),
    (dict(rope_scaling={"rope_type": "yarn", "factor": 4, "mscale": 1.0}), 1, '"mscale" of yarn'),
    (dict(partial_rotary_factor=0.5), 1, '"partial_rotary_factor" is 0.5; only 1 is supported'),
    (dict(rms_norm_eps=0), 3, '"rms_norm_eps" must be a positive number'),
    (dict(eos_token_id=320), 3, '"eos_token_id" must be ids below the vocabulary of 320'),
    (dict(eos_token_id=[1, "x"]), 3, '"eos_token_id" must be ids'),
    (dict(layer_types=["full_attention"]), 3, "layer_types has 1 entries for 2 layers"),
    (dict(layer_types=["full_attention", "linear_attention"]), 1, 'layers of type "linear_attention"'),
    (dict(tie_word_embeddings="yes"), 3, '"tie_word_embeddings" must be true or false'),
]


@pytest.mark.parametrize("changes,code,text", CONFIGS, ids=[str(c[0])[:60] for c in CONFIGS])
def test_config(model, refuses, changes, code, text):
    configure(model, **changes)
    refuses(code, text)


def test_unknown_model_can_be_packed_on_demand(glyd, model, tmp_path):
    configure(model, model_type="gpt2")
    assert glyd("pack", "--any", model, tmp_path / "save").code == 0
    assert glyd("verify", tmp_path / "save").code == 0


# --- sharded checkpoints ---

@pytest.fixture
def sharded(model):
    for file in model.iterdir():
        file.unlink()
    model.rmdir()
    tiny.make(model, shards=2)
    return model


def test_index_names_a_missing_file(sharded, refuses):
    (sharded / "model-00002-of-00002.safetensors").unlink()
    refuses(1, "has no model-00002-of-00002.safetensors")


def change_index(folder, change):
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    change(index["weight_map"])
    tiny.write_json(path, index)


def test_index_names_a_missing_tensor(sharded, refuses):
    change_index(sharded, lambda m: m.update(ghost="model-00002-of-00002.safetensors"))
    refuses(3, "model-00002-of-00002.safetensors lacks tensor ghost")


def test_index_lacks_a_tensor(sharded, refuses):
    change_index(sharded, lambda m: m.pop(NORM))
    refuses(3, f"holds tensor {NORM}, which model.safetensors.index.json puts nowhere")


def test_index_in_the_wrong_file(sharded, refuses):
    change_index(sharded, lambda m: m.update({NORM: "model-00001-of-00002.safetensors"}))
    refuses(3, f"tensor {NORM}")


@pytest.mark.parametrize("name", ["../model.safetensors", "/etc/passwd", "", ".hidden", 5])
def test_index_leads_out(sharded, refuses, name):
    change_index(sharded, lambda m: m.update({NORM: name}))
    refuses(3, f"the file of tensor {NORM} must be a name in the folder")


def test_tensor_in_two_shards(sharded, refuses):
    weights = tiny.tensors(tiny.config())
    names = list(weights)
    part = {n: weights[n] for n in names[len(names) // 2:] + names[:1]}
    tiny.write_safetensors(sharded / "model-00002-of-00002.safetensors", part)
    refuses(3, f"tensor {names[0]} is in both model-00001-of-00002.safetensors and")


# --- links ---

@pytest.mark.parametrize("name", [WEIGHTS, "config.json", "tokenizer.json", "generation_config.json"])
def test_link_out_of_the_folder(glyd, model, tmp_path, name):
    os.rename(model / name, tmp_path / "elsewhere")
    os.symlink("../elsewhere", model / name)
    glyd("pack", model, tmp_path / "save").is_error(3, f"{name} is a link to", "outside of the model")
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", "model"]


def test_link_to_another_repository(glyd, tmp_path):
    snapshot = tmp_path / "models--a--b" / "snapshots" / "1"
    snapshot.parent.mkdir(parents=True)
    tiny.make(snapshot)
    other = tmp_path / "models--c--d" / "blobs"
    other.mkdir(parents=True)
    os.rename(snapshot / WEIGHTS, other / "x")
    os.symlink(other / "x", snapshot / WEIGHTS)
    glyd("pack", snapshot, tmp_path / "save").is_error(3, f"{WEIGHTS} is a link to")


def test_link_to_nothing(model, refuses):
    (model / "tokenizer.json").unlink()
    os.symlink("nowhere", model / "tokenizer.json")
    with pytest.raises(FileNotFoundError):
        (model / "tokenizer.json").read_bytes()
    refuses(3, "tokenizer.json is a link that leads to nothing: download the model again")


def test_link_inside_the_folder_is_fine(glyd, model, tmp_path):
    os.symlink("tokenizer.json", model / "copy.json")
    assert glyd("pack", model, tmp_path / "save").code == 0


# --- the place of the output ---

def test_output_exists(glyd, model, tmp_path):
    (tmp_path / "save").mkdir()
    glyd("pack", model, tmp_path / "save").is_error(1, "save exists: choose a new name")
    (tmp_path / "file").write_text("x")
    glyd("pack", model, tmp_path / "file").is_error(1, "file exists")
    os.symlink("nowhere", tmp_path / "link")
    glyd("pack", model, tmp_path / "link").is_error(1, "link exists")


def test_output_inside_the_model(glyd, model):
    before = tree(model)
    for out in (model / "save", f"{model}/../model/save"):
        glyd("pack", model, out).is_error(1, "lies inside", "choose a place outside")
    assert tree(model) == before


def test_output_without_a_folder(glyd, model, tmp_path):
    glyd("pack", model, tmp_path / "no" / "save").is_error(1, "does not exist")
    glyd("pack", model, model / WEIGHTS / "save").is_error(1, "is not a folder")
    glyd("pack", model, "/proc/save").is_error(1, "cannot create /proc/.save.partial")


@pytest.mark.parametrize("out", ["", "/", ".", ".."])
def test_output_is_no_name(glyd, model, out):
    glyd("pack", model, out).is_error(1, "is no name for a new folder")


def test_unpack_checks_the_place_too(glyd, model, save):
    glyd("unpack", save, model).is_error(1, "model exists")
    glyd("unpack", save, save / "x").is_error(1, "lies inside")


# --- the command line ---

USAGE = [
    ([], "no command"), (["frobnicate"], "there is no command frobnicate"),
    (["bench"], "arguments needed: MODEL"), (["serve"], "arguments needed: MODEL"),
    (["x.bin", "-o", "y"], "not built yet"),
    (["pack"], "arguments needed: MODEL OUT"), (["pack", "a"], "arguments needed: MODEL OUT"),
    (["pack", "a", "b", "c"], "one argument too many: c"),
    (["pack", "--nonsense", "a", "b"], "unknown option --nonsense"),
    (["verify", "--layout", "mma", "a"], "unknown option --layout"),
    (["pack", "-x", "a", "b"], "unknown option -x"), (["pack", "a", "b", "-t"], "a value is missing"),
    (["pack", "--any=1", "a", "b"], "no value belongs to --any=1"),
    (["pack", "-t", "0", "a", "b"], "--threads 0: a whole number from 1 to 1024"),
    (["pack", "-t", "1x", "a", "b"], "--threads 1x: a whole number"),
    (["pack", "--layout", "bf16", "a", "b"], "--layout bf16: mma or mma12 is needed"),
    (["pack", "--layout=gzip", "a", "b"], "--layout gzip: mma or mma12 is needed"),
    (["pack", "--shard-size", "nan", "a", "b"], "--shard-size nan: a number"),
    (["plan", "-m", "0", "a"], "--memory 0: a number"),
]


@pytest.mark.parametrize("args,text", USAGE, ids=[" ".join(u[0]) or "none" for u in USAGE])
def test_usage(glyd, args, text):
    glyd(*args).is_error(2, text)


@pytest.mark.parametrize("name", ["-dash", "--double"])
def test_names_that_look_like_options(glyd, model, tmp_path, name):
    assert glyd("pack", "--", "model", name, cwd=tmp_path).code == 0
    assert glyd("verify", "--", name, cwd=tmp_path).code == 0
