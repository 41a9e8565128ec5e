"""from_pretrained, compress, save_pretrained and the quantizer, against transformers' own models.

SPDX-License-Identifier: Apache-2.0
"""
import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import glyd
import pytest
import torch
import transformers
from glyd import errors
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("GLYD_PROGRAM", str(ROOT / "build/release/glyd"))
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

# Values for whichever of these a configuration class has.
TINY = dict(
    hidden_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
    intermediate_size=192, vocab_size=320, n_embd=128, n_layer=2, n_head=4, n_inner=192,
    d_model=128, num_layers=2, num_heads=4, ffn_dim=192, decoder_layers=2,
    decoder_attention_heads=4, decoder_ffn_dim=192, encoder_layers=1, max_position_embeddings=128,
    n_positions=128, word_embed_proj_dim=128, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    rotary_dim=16, ffn_hidden_size=192, hidden_size_per_layer_input=32,
    vocab_size_per_layer_input=320, num_kv_shared_layers=0)

# Families whose Linears are plain: all their weights are packed, whatever else they have.
DENSE = """apertus arcee bitnet bloom codegen cohere cohere2 ctrl cwm diffllama ernie4_5 exaone4 fuyu
gemma gemma2 gemma3_text glm glm4 gpt_bigcode gpt_neo gpt_neox gptj granite helium hunyuan_v1_dense
hyperclovax jais2 lfm2 llama ministral ministral3 mistral mpt nanochat nemotron olmo olmo2 olmo3
persimmon phi phi3 qwen2 qwen3 seed_oss smollm3 stablelm starcoder2 vaultgemma xglm""".split()
# Others with weights that are not a plain Linear's or Embedding's, which are left and told.
MIXED = {"gpt2": "Conv1D", "opt": "OPTLearnedPositionalEmbedding", "qwen3_moe": "Experts",
         "bart": "BartLearnedPositionalEmbedding", "mixtral": "Experts"}
# What each has of its own: tied or not, and biases.
OWN = {"llama": {"tie_word_embeddings": True}, "qwen3": {"tie_word_embeddings": True},
       "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64},
       "mixtral": {"num_local_experts": 4}, "gpt_neo": {"attention_types": [[["global"], 2]]},
       "phi3": {"vocab_size": 321}, "granite": {"attention_bias": True}}


def config_of(family, **more):
    kind = CONFIG_MAPPING[family]
    has = kind()
    values = {name: value for name, value in TINY.items() if hasattr(has, name)}
    types = getattr(has, "layer_types", None)
    if types:
        values["layer_types"] = types[:2]
    return kind(**{**values, **OWN.get(family, {}), **more})


def model_of(family, **more):
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(config_of(family, **more), dtype=torch.bfloat16).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2 and parameter.dtype == torch.bfloat16:
                parameter.normal_(0, 0.05)
    return model


IDS = torch.tensor([[5, 9, 200, 31, 7, 7, 18, 250, 3], [8, 1, 77, 300, 41, 6, 5, 4, 19]])


def logits(model, ids=IDS):
    with torch.no_grad():
        return model(ids).logits


def same(a, b):
    bits = torch.int16 if a.dtype == torch.bfloat16 else torch.int32
    return a.dtype == b.dtype and torch.equal(a.contiguous().view(bits), b.contiguous().view(bits))


@pytest.mark.parametrize("family", [*DENSE, *MIXED])
def test_family(family):
    """Logits of the packed model are the bf16 model's, bit for bit."""
    model = model_of(family)
    want = logits(model)
    tied = model.get_input_embeddings().weight is model.get_output_embeddings().weight
    glyd.compress(model, verify=True)
    assert same(logits(model), want)
    report = glyd.report(model)
    assert len(report.packed) >= (2 if family == "gpt2" else 7)
    if family in MIXED:
        assert any(MIXED[family] in why for why in report.left.values()), report.left
    else:
        assert not report.left
    if tied:
        assert model.get_input_embeddings().weight is model.get_output_embeddings().weight


def test_compiled():
    """Compiled, logits are those of the compiled bf16 model, which are not those of the eager one:
    inductor rounds in other places. (oneDNN's products, which inductor would use for the bf16 model
    on a CPU, are off: a GPU has none.)"""
    model = model_of("llama", tie_word_embeddings=False)

    def compiled(model):
        torch._dynamo.reset()
        call = torch.compile(lambda ids: model(ids, use_cache=False).logits, fullgraph=True)
        with torch.no_grad(), torch.backends.mkldnn.flags(enabled=False):
            return call(IDS)
    want = compiled(model)
    assert same(compiled(glyd.compress(model)), want)


@pytest.fixture(params=["llama", "qwen2", "qwen3", "gemma3_text", "gpt_neox", "olmo2"])
def checkpoint(request, tmp_path):
    """(a bf16 folder, the bf16 model's logits, its family)."""
    model = model_of(request.param)
    model.save_pretrained(tmp_path / "bf16")
    return tmp_path / "bf16", logits(model), request.param


def test_from_pretrained_and_back(checkpoint, tmp_path):
    folder, want, family = checkpoint
    model = glyd.from_pretrained(folder, device="cpu", verify=True)
    assert same(logits(model), want)
    assert not glyd.report(model).left and model.is_quantized
    done = glyd.save_pretrained(model, tmp_path / "save")
    assert done["n_packed"] == len(glyd.report(model).packed)
    assert done["layout"] == "mma"
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]
    assert glyd.verify(tmp_path / "save")["n_tensors"] == done["n_tensors"]
    program = subprocess.run([PROGRAM, "verify", tmp_path / "save"], capture_output=True, text=True)
    assert program.returncode == 0, program.stderr
    for again in (glyd.from_pretrained(tmp_path / "save", device="cpu", verify=True),
                  AutoModelForCausalLM.from_pretrained(tmp_path / "save")):
        assert same(logits(again), want) and not glyd.report(again).left
        packed = glyd.report(again).packed
        assert {name: p.meta() for name, p in packed.items()} == {
            name: p.meta() for name, p in glyd.report(model).packed.items()}
        assert all(torch.equal(p.buffer, glyd.report(model).packed[name].buffer)
                   for name, p in packed.items())
        assert again.config.quantization_config.quant_method == "glyd"


def test_generate(checkpoint):
    folder, _, _ = checkpoint
    bf16 = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    packed = glyd.from_pretrained(folder, device="cpu", layout="mma12")
    options = dict(max_new_tokens=6, do_sample=False, attention_mask=torch.ones_like(IDS))
    assert torch.equal(bf16.generate(IDS, **options), packed.generate(IDS, **options))


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_a_save_of_the_program(tmp_path, family):
    """One whose config.json does not name glyd, with shards, and a tied head written out."""
    model = model_of(family)
    want = logits(model)
    state = {name: t.clone() for name, t in model.state_dict().items()}
    model.save_pretrained(tmp_path / "bf16", state_dict=state, max_shard_size="200KB")
    assert len(list((tmp_path / "bf16").glob("*.safetensors"))) > 1
    done = subprocess.run([PROGRAM, "pack", tmp_path / "bf16", tmp_path / "save", "--layout",
                           "mma12"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    packed = glyd.from_pretrained(tmp_path / "save", device="cpu", verify=True)
    assert same(logits(packed), want)
    assert {p.layout for p in glyd.report(packed).packed.values()} == {"mma12"}
    with_config = AutoModelForCausalLM.from_pretrained(
        tmp_path / "save", quantization_config=glyd.GlydConfig(exact=False))
    assert same(logits(with_config), want) and not with_config.lm_head.exact
    with pytest.raises(errors.ArgumentError, match="layout mma12, not mma"):
        glyd.from_pretrained(tmp_path / "save", device="cpu", layout="mma")
    with pytest.raises(errors.ArgumentError, match="skip"):
        glyd.from_pretrained(tmp_path / "save", device="cpu", skip=["lm_head"])


def test_a_save_of_several_shards(tmp_path, monkeypatch):
    from glyd import model as glyd_model
    monkeypatch.setattr(glyd_model, "_SHARD_BYTES", 100_000)
    model = model_of("llama", tie_word_embeddings=False)
    want = logits(model)
    folder = tmp_path / "bf16"
    folder.mkdir()
    glyd_model._write_checkpoint(model, folder)
    options = glyd_model._lib.SaveOptions(layout=2, any_model=1, shard_bytes=150_000)
    glyd_model._lib.call(glyd_model._lib.cpu().glyd_save_pack, os.fsencode(folder),
                         os.fsencode(tmp_path / "save"), glyd_model.byref(options), None)
    assert len(list((tmp_path / "save").glob("glyd-*.safetensors"))) > 2
    assert same(logits(AutoModelForCausalLM.from_pretrained(tmp_path / "save")), want)


def test_a_damaged_save(tmp_path):
    glyd.save_pretrained(model_of("llama"), tmp_path / "save")
    shard = tmp_path / "save" / "glyd-00001-of-00001.safetensors"
    before = shard.read_bytes()
    save = glyd.Save(tmp_path / "save")
    begin, _ = save._spans[0]["model.layers.0.mlp.up_proj.weight.bases"]
    at = len(before) - save._data[0].nbytes + begin
    shard.write_bytes(before[:at] + b"\xff" + before[at + 1:])
    with pytest.raises(errors.CorruptError, match="up_proj"):
        AutoModelForCausalLM.from_pretrained(tmp_path / "save")
    with pytest.raises((errors.CorruptError, errors.MismatchError), match="up_proj"):
        glyd.verify(tmp_path / "save")
    shard.write_bytes(before[:-1])
    with pytest.raises(errors.CorruptError, match="bytes"):
        AutoModelForCausalLM.from_pretrained(tmp_path / "save")
    shard.write_bytes(before[:20] + b"?" + before[21:])
    with pytest.raises(errors.MismatchError, match="header"):
        AutoModelForCausalLM.from_pretrained(tmp_path / "save")
    shard.write_bytes(before)
    manifest = tmp_path / "save" / "glyd.json"
    text = manifest.read_text()
    manifest.write_text(text.replace('"mma"', '"mmb"', 1))
    with pytest.raises(errors.MismatchError, match="changed"):
        glyd.Save(tmp_path / "save")
    manifest.write_text(text.replace("glyd-1", "glyd-v3", 1))
    with pytest.raises(errors.FormatError, match="glyd-v3"):
        glyd.Save(tmp_path / "save")
    manifest.write_text(text)
    shard.unlink()
    with pytest.raises(errors.NotFoundError, match="shard"):
        glyd.Save(tmp_path / "save")


def test_reading_a_save(tmp_path):
    model = model_of("qwen2")
    glyd.save_pretrained(model, tmp_path / "save")
    save = glyd.Save(tmp_path / "save")
    state = model.state_dict()
    for name in save.entries:
        if save.is_packed(name):
            unpacked = glyd.unpack_tensor(save.packed(name).to("cpu"))
            assert same(unpacked, state[name])
        else:
            dtype, shape, data = save.raw(name)
            assert dtype == "BF16" and tuple(shape) == state[name].shape
            assert data.tobytes() == state[name].view(torch.int16).numpy().tobytes()
    with pytest.raises(errors.NotFoundError):
        save.packed("model.nothing")


def test_unpacked_again_it_is_a_checkpoint(tmp_path):
    """`glyd unpack` of a save made here: its config still names glyd, and it loads, packed."""
    model = model_of("qwen3")
    want = logits(model)
    glyd.save_pretrained(model, tmp_path / "save")
    done = subprocess.run([PROGRAM, "unpack", tmp_path / "save", tmp_path / "bf16"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "bf16")
    assert same(logits(again), want) and len(glyd.report(again).packed) == 15


def test_skip(tmp_path):
    model = model_of("llama", tie_word_embeddings=False)
    want = logits(model)
    model.save_pretrained(tmp_path / "bf16")
    model = glyd.from_pretrained(tmp_path / "bf16", device="cpu", skip=["lm_head", "layers.0.mlp"])
    assert same(logits(model), want)
    left = glyd.report(model).left
    assert set(left) == {"lm_head.weight", *(f"model.layers.0.mlp.{name}_proj.weight"
                                             for name in ("gate", "up", "down"))}
    assert set(left.values()) == {"skipped"}
    glyd.save_pretrained(model, tmp_path / "save")  # partly packed: all of it is, in the save
    again = glyd.from_pretrained(tmp_path / "save", device="cpu")
    assert same(logits(again), want) and not glyd.report(again).left


def test_refusals(tmp_path):
    folder = tmp_path / "bf16"
    model = model_of("llama")
    model.save_pretrained(folder)
    for options, kind, text in (
            ({"dtype": torch.float16}, errors.ArgumentError, "dtype"),
            ({"layout": "bf16"}, errors.ArgumentError, "packs nothing"),
            ({"layout": "mma9"}, errors.ArgumentError, "no layout"),
            ({"device": "meta"}, errors.UnsupportedError, "cpu and cuda"),
            ({"device_map": "auto"}, errors.ArgumentError, "device_map"),
            ({"quantization_config": None}, errors.ArgumentError, "quantization_config")):
        with pytest.raises(kind, match=text):
            glyd.from_pretrained(folder, **{"device": "cpu", **options})
    with pytest.raises(errors.ArgumentError, match="no option colour"):
        glyd.GlydConfig(colour="red")
    packed = glyd.from_pretrained(folder, device="cpu")
    with pytest.raises(ValueError, match="not serializable"):
        packed.save_pretrained(tmp_path / "other")
    glyd.save_pretrained(packed, tmp_path / "save")
    with pytest.raises(FileExistsError):
        glyd.save_pretrained(packed, tmp_path / "save")
    with pytest.raises(errors.ArgumentError, match="meta"):
        glyd.save_pretrained(model.to("meta"), tmp_path / "other")
    assert sorted(os.listdir(tmp_path)) == ["bf16", "save"]


def test_float32_weights_stay(tmp_path):
    """Of a checkpoint in float32, loaded as bf16, what is packed is the bf16 that transformers makes."""
    model = model_of("llama").float()
    model.save_pretrained(tmp_path / "f32")
    bf16 = AutoModelForCausalLM.from_pretrained(tmp_path / "f32", dtype=torch.bfloat16)
    assert same(logits(glyd.from_pretrained(tmp_path / "f32", device="cpu")), logits(bf16))
    glyd.compress(model)
    assert not glyd.report(model).packed
    assert set(glyd.report(model).left.values()) == {"float32, not bf16"}


def test_deepcopy_and_training(checkpoint):
    folder, want, _ = checkpoint
    model = copy.deepcopy(glyd.from_pretrained(folder, device="cpu"))
    assert same(logits(model), want)
    embeddings = model.get_input_embeddings()(IDS).detach().requires_grad_()
    bf16 = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    other = embeddings.detach().clone().requires_grad_()
    model(inputs_embeds=embeddings, labels=IDS).loss.backward()
    bf16(inputs_embeds=other, labels=IDS).loss.backward()
    assert same(embeddings.grad, other.grad)


PROGRAM_OF_IMPORTS = """
import sys
{first}
{second}
from transformers.quantizers.auto import AUTO_QUANTIZER_MAPPING
assert "glyd" in AUTO_QUANTIZER_MAPPING
"""


@pytest.mark.parametrize("first, second", [
    ("import glyd", ""), ("import glyd", "import transformers"),
    ("from transformers import AutoModelForCausalLM\nimport glyd", "import torch"),
    ("from transformers.quantizers import auto\nimport glyd", "import torch"),
    ("import glyd\nfrom glyd import hf", "import torch")])
def test_registration_in_any_order(first, second):
    program = PROGRAM_OF_IMPORTS.format(first=first, second=second)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          env=environment, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("tied", [True, False])
def test_what_transformers_does_to_a_model(tied):
    model = model_of("llama", tie_word_embeddings=tied)
    want = logits(model)
    glyd.compress(model)
    with pytest.raises(errors.UnsupportedError, match="before it is packed"):
        model.resize_token_embeddings(330)
    assert same(logits(model), want)
    model.tie_weights()
    assert (model.lm_head.weight is model.model.embed_tokens.weight) == tied
    model.train()
    model.gradient_checkpointing_enable()
    model.enable_input_require_grads()
    loss = model(IDS, labels=IDS).loss
    loss.backward()
    assert model.model.norm.weight.grad is not None and model.dtype == torch.bfloat16


def test_config_of_a_save(tmp_path):
    glyd.save_pretrained(model_of("qwen3"), tmp_path / "save")
    config = json.loads((tmp_path / "save/config.json").read_text())
    assert config["quantization_config"] == {"quant_method": "glyd"}
    assert config["architectures"] == ["Qwen3ForCausalLM"] and config["dtype"] == "bfloat16"
    assert AutoConfig.from_pretrained(tmp_path / "save").model_type == "qwen3"
