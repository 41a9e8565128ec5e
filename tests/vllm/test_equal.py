"""vLLM with packed weights answers as vLLM with bf16 weights: every token, every log-probability.

SPDX-License-Identifier: Apache-2.0
"""
import logging

import answers
import pytest
import tinier


def glyd(layout="auto", **options):
    return {"quantization": "glyd", "additional_config": {"glyd": {"layout": layout, **options}}}


def packed_modules(llm):
    """{name: the layout that it is held in, bf16 where it is plain}, of Linears and tables."""
    def look(model):
        return {name: module.glyd_weight.packed.layout if getattr(module, "glyd_shape", None)
                else "bf16" for name, module in model.named_modules()
                if hasattr(module, "quant_method") and hasattr(module, "weight")}
    (found,) = llm.apply_model(look)
    return found


@pytest.fixture
def log():
    """Lines that glyd writes into vLLM's log."""
    class Lines(logging.Handler):
        def __init__(self):
            super().__init__()
            self.lines = []

        def emit(self, record):
            self.lines.append(record.getMessage())
    handler = Lines()
    logger = logging.getLogger("vllm.glyd")
    logger.addHandler(handler)
    yield handler.lines
    logger.removeHandler(handler)


@pytest.mark.parametrize("name", tinier.MODELS)
def test_bf16_checkpoint(name, models, expected):
    with answers.engine(models(name), **glyd()) as llm:
        assert answers.ask(llm) == expected(name)
        held = packed_modules(llm)
    plain = {name for name, layout in held.items() if layout == "bf16"}
    assert {name.rpartition(".")[2] for name in plain} <= {"gate"}
    assert set(held.values()) <= {"mma12", "bf16"} and "mma12" in held.values()


def test_layout_mma_verified(models, expected):
    with answers.engine(models("qwen2"), **glyd("mma", verify=True)) as llm:
        assert answers.ask(llm) == expected("qwen2")
        assert set(packed_modules(llm).values()) == {"mma"}


def test_tied_tables_are_one(models):
    for name in ("llama-tied", "qwen3-tied", "moe-tied"):
        with answers.engine(models(name), **glyd()) as llm:
            def same(model):
                return model.lm_head.glyd_weight is model.model.embed_tokens.glyd_weight
            assert llm.apply_model(same) == [True], name


def test_not_exact(models, expected):
    """Sums in glyd's own order: on a CPU the same bits, here that the option is taken."""
    with answers.engine(models("llama"), **glyd(exact=False)) as llm:
        assert llm.apply_model(lambda m: m.lm_head.glyd_weight.exact) == [False]
        assert [a[0] for a in answers.ask(llm)] == [a[0] for a in expected("llama")]


@pytest.mark.parametrize("fraction", [0, 0.5])
def test_fraction(fraction, models, expected, log):
    with answers.engine(models("llama-tied"), **glyd(fraction=fraction)) as llm:
        assert answers.ask(llm) == expected("llama-tied")
        held = list(packed_modules(llm).values())
    n_packed = len(held) - held.count("bf16")
    assert n_packed == 0 if fraction == 0 else 0 < n_packed < len(held)
    left = [line for line in log if "left bf16" in line and "fraction" in line]
    assert len(left) >= held.count("bf16") - 1  # two names of one tied table


def test_log_names_what_is_left(models, log):
    with answers.engine(models("moe"), **glyd()):
        pass
    for i in range(2):
        assert any("left bf16" in line and f"layers.{i}.mlp.gate: a router" in line for line in log)
        assert any("left bf16" in line and f"layers.{i}.mlp.experts" in line
                   and "experts are not packed yet" in line for line in log)


@pytest.mark.parametrize("name, layout", [("qwen3-odd-tied", "mma"), ("llama", "mma12")])
def test_save_is_served_as_saved(name, layout, models, expected):
    with answers.engine(models(name, layout), additional_config={"glyd": {"verify": True}}) as llm:
        assert answers.ask(llm) == expected(name)
        assert set(packed_modules(llm).values()) == {layout}


def test_speculation(models, expected):
    """A draft model, read from a save and held as bf16; greedy answers are the model's."""
    draft = {"method": "draft_model", "model": str(models("qwen3-tied", "mma")),
             "num_speculative_tokens": 2}
    with answers.engine(models("qwen3"), speculative_config=draft, **glyd()) as llm:
        found = llm.generate([{"prompt_token_ids": ids} for ids in answers.PROMPTS], _greedy(),
                             use_tqdm=False)
    tokens = [list(answer.outputs[0].token_ids) for answer in found]
    assert tokens == [answer[0] for answer in expected("qwen3")]


def _greedy():
    from vllm import SamplingParams
    return SamplingParams(temperature=0, max_tokens=answers.TOKENS, ignore_eos=True,
                          detokenize=False)
