"""The torch operators and modules on the CPU: bits, opcheck, compile, gradients, moves, refusals.

What needs a GPU is in gpu_exact.py.
SPDX-License-Identifier: Apache-2.0
"""
import copy
import gc
import io
import pickle

import glyd
import pytest
import torch
import torch.nn.functional as F
from glyd import errors, ops
from torch import nn

ops_glyd = torch.ops.glyd


def same(a, b):
    return a.shape == b.shape and torch.equal(a.contiguous().view(torch.int16),
                                              b.contiguous().view(torch.int16))


@pytest.fixture(params=["mma", "mma12", "bf16"])
def pair(request, weights):
    """(a Weight, the bf16 weight)."""
    w = weights(300, 200)
    return ops.Weight(glyd.pack_tensor(w, request.param)), w


def inputs(cols):
    x = torch.randn(4, 10, cols).bfloat16()
    return {"2-D": x[0], "3-D": x, "4-D": x.view(2, 2, 10, cols), "a vector": x[0, 0],
            "the last tokens": x[:, -1:], "columns apart": x.transpose(0, 1), "nothing": x[:0]}


def test_linear_has_the_bits_of_torch(pair):
    weight, w = pair
    bias = torch.randn(weight.rows).bfloat16()
    for what, x in inputs(weight.cols).items():
        for b in (None, bias):
            got = ops_glyd.linear(x, weight.descriptor, weight.rows, b)
            assert same(got, F.linear(x, w, b)), what


def test_not_exact_is_near(weights, monkeypatch):
    w = weights(300, 200)
    weight = ops.Weight(glyd.pack_tensor(w), exact=False)
    monkeypatch.setattr(ops, "_CPU_ROWS", 64)
    x, bias = torch.randn(2, 5, 200).bfloat16(), torch.randn(300).bfloat16()
    got = ops_glyd.linear(x, weight.descriptor, 300, bias)
    torch.testing.assert_close(got, F.linear(x, w, bias), atol=0.05, rtol=0.02)


def test_embedding_and_unpack(pair):
    weight, w = pair
    for ids in (torch.tensor([[1, 5, 299], [5, 5, 0]]), torch.tensor(7), torch.empty(2, 0).long(),
                torch.tensor([3, 4], dtype=torch.int32)):
        assert same(ops_glyd.embedding(ids, weight.descriptor, weight.cols), F.embedding(ids, w))
        place, rows = ops_glyd.embedding_rows(ids, weight.descriptor, weight.cols)
        assert rows.shape == (ids.numel(), weight.cols) and same(F.embedding(place, rows),
                                                                 F.embedding(ids, w))
    for ids in ([-1], [300]):
        with pytest.raises(IndexError):
            ops_glyd.embedding(torch.tensor(ids), weight.descriptor, weight.cols)
    assert same(ops_glyd.unpack(weight.descriptor, weight.rows, weight.cols), w)


def test_opcheck(pair):
    weight, _ = pair
    x, bias = torch.randn(2, 3, weight.cols).bfloat16(), torch.randn(weight.rows).bfloat16()
    ids = torch.tensor([[1, 2], [3, 4]])
    for op, args in (
            (ops_glyd.linear.default, (x, weight.descriptor, weight.rows, bias)),
            (ops_glyd.linear.default, (x, weight.descriptor, weight.rows, None)),
            (ops_glyd.linear.default, (x.clone().requires_grad_(), weight.descriptor, weight.rows,
                                       bias.clone().requires_grad_())),
            (ops_glyd.embedding.default, (ids, weight.descriptor, weight.cols)),
            (ops_glyd.embedding_rows.default, (ids, weight.descriptor, weight.cols)),
            (ops_glyd.unpack.default, (weight.descriptor, weight.rows, weight.cols))):
        assert set(torch.library.opcheck(op, args).values()) == {"SUCCESS"}


def test_gradients(pair):
    weight, w = pair
    bias = torch.randn(weight.rows).bfloat16()
    x = torch.randn(2, 3, weight.cols).bfloat16()
    a, b = [t.clone().requires_grad_() for t in (x, bias)], [t.clone().requires_grad_()
                                                             for t in (x, bias)]
    ops_glyd.linear(a[0], weight.descriptor, weight.rows, a[1]).float().square().sum().backward()
    F.linear(b[0], w, b[1]).float().square().sum().backward()
    assert same(a[0].grad, b[0].grad)
    torch.testing.assert_close(a[1].grad, b[1].grad)


def test_what_linear_refuses(pair):
    weight, _ = pair
    x, rows = torch.randn(3, weight.cols).bfloat16(), weight.rows
    for args in ((x.float(), rows, None), (x[:, 1:], rows, None), (x, rows + 1, None),
                 (x, rows, torch.zeros(rows)), (x, rows, torch.zeros(rows + 1).bfloat16())):
        with pytest.raises(errors.ArgumentError):
            ops_glyd.linear(args[0], weight.descriptor, args[1], args[2])
    with pytest.raises(errors.ArgumentError, match="ids are"):
        ops_glyd.embedding(x, weight.descriptor, weight.cols)


def test_descriptors(weights):
    w = weights(64, 128)
    weight = ops.Weight(glyd.pack_tensor(w))
    again = weight.descriptor.clone()
    assert same(ops_glyd.unpack(again, 64, 128), w)
    for wrong in (torch.zeros(8, dtype=torch.int64), torch.zeros(7, dtype=torch.int64),
                  torch.zeros(8)):
        with pytest.raises(errors.ArgumentError, match="descriptor"):
            ops_glyd.unpack(wrong, 64, 128)
    kept = weight.descriptor
    del weight
    gc.collect()
    for descriptor in (again, kept):
        with pytest.raises(errors.ArgumentError, match="Weight is gone"):
            ops_glyd.unpack(descriptor, 64, 128)


def test_an_address_that_is_used_again(weights):
    """Descriptors come and go at the same addresses, and each call finds its own weight."""
    ws = [weights(16, 64, seed) for seed in range(4)]
    for i in range(200):
        weight = ops.Weight(glyd.pack_tensor(ws[i % 4]))
        copied = weight.descriptor.clone()
        assert same(ops_glyd.unpack(weight.descriptor, 16, 64), ws[i % 4])
        assert same(ops_glyd.unpack(copied, 16, 64), ws[i % 4])


def test_numpy_has_no_descriptor(rng):
    import numpy as np
    with pytest.raises(errors.ArgumentError, match="torch buffer"):
        ops.Weight(glyd.pack_tensor(rng.integers(0, 9, (16, 64)).astype(np.uint16)))


class Model(nn.Module):
    """An embedding, two Linears and a tied head."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(500, 128)
        self.up, self.down = nn.Linear(128, 256), nn.Linear(256, 128)
        self.head = nn.Linear(128, 500, bias=False)
        self.head.weight = self.embed.weight
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.02)

    def forward(self, ids):
        return self.head(self.down(torch.relu(self.up(self.embed(ids)))))


@pytest.fixture
def models():
    """(the bf16 model, the packed one, ids, logits)."""
    torch.manual_seed(3)
    bf16 = Model().bfloat16()
    packed = glyd.compress(copy.deepcopy(bf16))
    ids = torch.randint(0, 500, (2, 7))
    return bf16, packed, ids, bf16(ids).detach()


def test_compress(models):
    bf16, packed, ids, logits = models
    assert same(packed(ids), logits)
    report = glyd.report(packed)
    assert set(report.packed) == {"embed.weight", "up.weight", "down.weight"} and not report.left
    assert report.bytes_packed < 0.75 * report.bytes_bf16
    assert packed.head.weight is packed.embed.weight
    assert isinstance(packed.up, nn.Linear) and isinstance(packed.embed, nn.Embedding)
    assert packed.up.weight.shape == (256, 128) and packed.up.weight.dtype == torch.bfloat16
    assert not packed.up.weight.requires_grad and packed.up.bias.requires_grad
    assert "11." in repr(packed.up) or "12." in repr(packed.up)


def test_the_weight_as_a_tensor(models):
    bf16, packed, _, _ = models
    assert torch.equal(packed.up.weight.float(), bf16.up.weight.float())
    assert same(packed.up.weight.t()[3:5], bf16.up.weight.t()[3:5])
    assert torch.equal(packed.up.weight, bf16.up.weight)
    for moved in (packed.up.weight.to("cpu", copy=True), torch.ops.aten._to_copy(
            packed.up.weight, dtype=torch.bfloat16, layout=torch.strided, device="cpu")):
        assert isinstance(moved, glyd.nn.PackedWeight) and torch.equal(moved, bf16.up.weight)
    for write in (lambda w: w.add_(1), lambda w: w.copy_(torch.zeros(256, 128)),
                  lambda w: torch.mul(bf16.up.weight.detach(), 2, out=w)):
        with pytest.raises(errors.UnsupportedError, match="cannot be written"):
            write(packed.up.weight.detach())
    with pytest.raises(errors.UnsupportedError, match="before it is packed"):
        packed.up.weight.data = torch.zeros(256, 128)
    assert torch.equal(packed.up.weight.data[:2], bf16.up.weight[:2])


def test_another_weight(models):
    bf16, packed, ids, _ = models
    for wrong in (nn.Parameter(torch.zeros(256, 128).bfloat16()), packed.embed.weight):
        with pytest.raises(errors.UnsupportedError, match="PackedWeight of its shape"):
            packed.up.weight = wrong
    other = glyd.compress(nn.Linear(128, 256).bfloat16())
    packed.up.weight = other.weight
    x = torch.randn(3, 128).bfloat16()
    assert same(packed.up(x), F.linear(x, other.weight.unpack(), bf16.up.bias))


def test_compile(models):
    _, packed, ids, logits = models
    with torch.no_grad():
        assert same(torch.compile(packed, fullgraph=True)(ids), logits)


def test_layers_of_one_shape_compile_once(weights):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    layers = nn.ModuleList(nn.Linear(64, 64, bias=False).bfloat16() for _ in range(4))
    for i, layer in enumerate(layers):
        layer.weight.data = weights(64, 64, i)
        glyd.nn.pack(layer, glyd.pack_tensor(layer.weight.detach(), "mma12"))
        layer.compile(fullgraph=True)
    x = torch.randn(3, 64).bfloat16()
    with torch.no_grad():
        for i, layer in enumerate(layers):
            assert same(layer(x), F.linear(x, weights(64, 64, i)))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_deepcopy_and_pickle(models):
    _, packed, ids, logits = models
    for other in (copy.deepcopy(packed), pickle.loads(pickle.dumps(packed))):
        assert same(other(ids), logits)
        assert other.head.weight is other.embed.weight
        assert other.up.weight.glyd is not packed.up.weight.glyd
        assert "up.descriptor" not in other.state_dict()
    del other
    assert same(packed(ids), logits)


def test_state_dict(models):
    bf16, packed, ids, logits = models
    file = io.BytesIO()
    torch.save(packed.state_dict(), file)
    file.seek(0)
    torch.manual_seed(4)
    other = glyd.compress(Model().bfloat16(), "mma12")
    assert not same(other(ids), logits)
    other.load_state_dict(torch.load(file))
    assert same(other(ids), logits) and other.head.weight is other.embed.weight
    assert other.up.weight.glyd.packed.layout == "mma"
    other = glyd.compress(Model().bfloat16(), "mma12")
    other.load_state_dict(bf16.state_dict())  # a bf16 one is packed
    assert same(other(ids), logits) and other.up.weight.glyd.packed.layout == "mma12"
    damaged = {name: tensor.clone() for name, tensor in packed.state_dict().items()}
    damaged["up.weight"][packed.up.weight.glyd.packed.offsets[2]] = 255  # a base
    with pytest.raises(RuntimeError, match="up.weight"):
        other.load_state_dict(damaged)
    with pytest.raises(RuntimeError, match="up.weight"):
        other.load_state_dict({n: t for n, t in packed.state_dict().items() if n != "up.weight"})
    assert same(other(ids), logits)


def test_moves(models):
    _, packed, ids, logits = models
    packed.to("cpu")
    assert same(packed(ids), logits)
    with pytest.raises(errors.UnsupportedError, match="meta"):
        packed.to("meta")
    assert same(packed.up(torch.ones(1, 128).bfloat16()), packed.up(torch.ones(1, 128).bfloat16()))
    assert packed.up.weight.dtype == torch.bfloat16


def test_autocast(models):
    bf16, packed, _, _ = models
    x = torch.randn(3, 128)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert same(packed.up(x), bf16.up(x))
    with pytest.raises(errors.ArgumentError, match="float32"):
        packed.up(x)


def test_an_adapter_on_a_packed_weight_learns(models):
    _, packed, ids, _ = models
    a, b = (nn.Parameter(torch.randn(s).bfloat16() * 0.02) for s in ((128, 4), (4, 256)))
    x = packed.embed(ids)
    loss = packed.head(packed.down(packed.up(x) + x @ a @ b)).float().square().mean()
    loss.backward()
    assert a.grad.abs().sum() > 0 and b.grad.abs().sum() > 0
    assert packed.up.weight.grad is None and packed.up.bias.grad is not None


def test_what_is_left(weights):
    torch.manual_seed(5)

    class Other(nn.Linear):
        pass
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64).bfloat16(),
                          Other(64, 64).bfloat16(), nn.Conv1d(4, 4, 3).bfloat16(),
                          nn.Embedding(100, 64, max_norm=1.0).bfloat16(),
                          nn.Linear(64, 64).bfloat16())
    with torch.no_grad():
        model[1].weight.view(torch.int16).random_(-(1 << 15), 1 << 15)
        model[5].weight.normal_(std=0.02)
    for why, kind in (("no module", {"skip": ["head"]}), ("packs nothing", {"layout": "bf16"}),
                      ("no layout", {"layout": "mma8"})):
        with pytest.raises(errors.ArgumentError, match=why):
            glyd.compress(model, **kind)
    glyd.compress(model, skip=["5"])
    assert not glyd.report(model).packed
    left = glyd.report(model).left
    for name, why in (("0", "float32, not bf16"), ("1", "would not make it smaller"),
                      ("2", "Other is not a plain Linear"), ("3", "neither a Linear"),
                      ("4", "max_norm"), ("5", "skipped")):
        assert why in left[f"{name}.weight"]
        assert left[f"{name}.weight"] in str(glyd.report(model))
    glyd.compress(model, verify=True)
    assert set(glyd.report(model).packed) == {"5.weight"}


def test_shared_with_what_cannot_be_packed():
    class Head(nn.Linear):
        pass
    model = nn.ModuleDict({"embed": nn.Embedding(100, 64), "head": Head(64, 100)}).bfloat16()
    model.head.weight = model.embed.weight
    glyd.compress(model)
    assert not glyd.report(model).packed
    assert model.head.weight is model.embed.weight
