"""What the plugin refuses, and that it says why.

SPDX-License-Identifier: Apache-2.0
"""
import json
import shutil

import answers
import pytest
import tinier
from glyd.vllm import config, options, plugin


@pytest.mark.parametrize("section, text", [
    ({"layuot": "mma"}, "no option 'layuot'"), ({"layout": "mma13"}, "one of auto, mma, mma12"),
    ({"layout": "bf16"}, "leave --quantization glyd out"), ({"layout": ["mma"]}, "one of auto"),
    ({"exact": 1}, "true or false"), ({"verify": "yes"}, "true or false"),
    ({"fraction": 1.5}, "from 0 to 1"), ({"fraction": "nan"}, "from 0 to 1"),
    ({"fraction": True}, "from 0 to 1"), ({"kv": "lossless"}, "is not built"),
    ({"kv": "on"}, "one of auto, off"), ("mma12", "not an object"),
])
def test_options(section, text):
    with pytest.raises(options.OptionError, match=text):
        options.read({"glyd": section}, {})


def test_options_from_the_environment():
    environ = {"GLYD_LAYOUT": "mma", "GLYD_EXACT": "false", "GLYD_VERIFY": "TRUE",
               "GLYD_FRACTION": "0.25", "GLYD_KV": "off"}
    assert options.read({}, environ) == options.Options("mma", False, True, 0.25, "off")
    assert options.read({"glyd": {"layout": "mma12"}}, environ).layout == "mma12"
    assert options.read(None, {}) == options.Options()
    with pytest.raises(options.OptionError, match="GLYD_EXACT is '1'"):
        options.read({}, {"GLYD_EXACT": "1"})


def test_a_slip_stops_the_start(models):
    with pytest.raises(options.OptionError, match="no option 'layuot'"):
        answers.of(models("llama"), quantization="glyd",
                   additional_config={"glyd": {"layuot": "mma"}})


def test_versions():
    for version in ("0.24.0", "0.26.0+cpu", "0.32.1"):
        assert plugin.version_refusal(version) is None
    for version in ("0.23.1", "0.33.0", "1.0", "unknown"):
        assert version in plugin.version_refusal(version)


def test_unsupported_version_stops_with_why(models, monkeypatch):
    monkeypatch.setattr(config.GlydConfig, "refusal", plugin.version_refusal("0.99.0"))
    with pytest.raises(RuntimeError, match="this is 0.99.0"):
        config.GlydConfig()


def test_key_of_compiled_graphs_changes_with_the_library(monkeypatch):
    from vllm.config import VllmConfig
    keys = set()
    for version, operators in (("0.1.0", 1), ("0.1.1", 1), ("0.1.0", 2)):
        monkeypatch.setattr(config, "__version__", version)
        monkeypatch.setattr(config, "OPERATORS", operators)
        vllm_config = VllmConfig()
        config.mark_library(vllm_config.additional_config)
        assert options.read(vllm_config.additional_config, {}) == options.Options()
        keys.add(vllm_config.compute_hash())
    assert len(keys) == 3


LACKING = [
    ("llama", "model.layers.1.mlp.down_proj.weight"),
    ("llama", "model.layers.0.self_attn.k_proj.weight"),
    ("qwen3", "lm_head.weight"), ("qwen3-odd-tied", "model.embed_tokens.weight"),
    ("qwen2", "model.layers.1.self_attn.v_proj.bias"),
    ("llama", "model.layers.1.input_layernorm.weight"),
    ("moe", "model.layers.0.mlp.experts.2.up_proj.weight"),
    ("moe", "model.layers.1.mlp.gate.weight"),
]


@pytest.mark.parametrize("name, lacking", LACKING)
def test_incomplete_checkpoint(name, lacking, tmp_path):
    tinier.make(tmp_path / "model", name, without=[lacking])
    with pytest.raises(ValueError, match="the checkpoint gave|not initialized"):
        answers.of(tmp_path / "model", quantization="glyd")


def test_save_with_another_quantization(models):
    with pytest.raises(ValueError, match="cannot be served with --quantization fp8"):
        answers.of(models("llama", "mma12"), quantization="fp8")


def test_corrupt_save(models, tmp_path):
    save = tmp_path / "save"
    shutil.copytree(models("llama", "mma12"), save)
    shard = next(save.glob("glyd-*.safetensors"))
    bits = bytearray(shard.read_bytes())
    bits[len(bits) // 3] ^= 0x40
    shard.write_bytes(bits)
    with pytest.raises(Exception, match="model|digest"):
        answers.of(save, additional_config={"glyd": {"verify": True}})


def test_other_format(models, tmp_path):
    save = tmp_path / "save"
    shutil.copytree(models("llama", "mma12"), save)
    manifest = json.loads((save / "glyd.json").read_text())
    (save / "glyd.json").write_text(json.dumps({**manifest, "format": "glyd-v3"}))
    with pytest.raises(Exception, match="glyd-v3.*pack the bf16 checkpoint again"):
        answers.of(save)


def test_offloading(models):
    with pytest.raises(ValueError, match="cannot have vLLM offload"):
        answers.of(models("llama"), quantization="glyd", cpu_offload_gb=1)
