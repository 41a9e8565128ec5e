"""Log likelihoods as lm-eval's local-completions asks for them, against transformers' own.

The request is lm-eval's: token ids in, echo, one log probability, one or no token more; what is
added up are the echoed tokens of the continuation. transformers runs the same weights in float32.
SPDX-License-Identifier: Apache-2.0
"""
import pytest
from serving import REAL

TOLERANCE = 1e-3
TASK = [("The capital of France is", [" Paris", " Berlin", " a small village in Peru"]),
        ("Water boils at a temperature of", [" 100 degrees Celsius.", " three apples."]),
        ("def add(a, b):\n    return", [" a + b", " a - b", " None"]),
        ("Die Hauptstadt von Österreich ist", [" Wien.", " Zürich 🏔."]),
        ("\"Where are you going?\" she asked. \"To the", [" shop,\" he said.", " the the the"])]


@pytest.fixture(scope="module")
def pairs():
    """[(context ids, continuation ids)] of every choice of the task."""
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(REAL / "tokenizer.json"))
    out = []
    for context, choices in TASK:
        before = tokenizer.encode(context).ids
        out += [(before, tokenizer.encode(context + choice).ids[len(before):])
                for choice in choices]
    return out


@pytest.fixture(scope="module")
def oracle():
    """(context ids, continuation ids) to (sum of log probabilities, whether greedy decoding gives
    the continuation), by transformers."""
    import torch
    from transformers import AutoModelForCausalLM
    model = AutoModelForCausalLM.from_pretrained(REAL, dtype=torch.float32).eval()

    @torch.no_grad()
    def ask(context, continuation):
        logits = model(torch.tensor([context + continuation])).logits[0].double()
        rows = torch.log_softmax(logits, -1)[len(context) - 1:-1]
        picked = rows.gather(1, torch.tensor(continuation)[:, None])
        return picked.sum().item(), rows.argmax(-1).tolist() == continuation

    return ask


@pytest.fixture(scope="module")
def expected(oracle, pairs):
    return [oracle(*pair) for pair in pairs]


def likelihoods(pairs, choices):
    """What lm-eval makes of the choices of a reply."""
    out = []
    for (context, continuation), choice in zip(pairs, choices, strict=True):
        told, tops = choice.logprobs.token_logprobs, choice.logprobs.top_logprobs
        assert told[0] is None
        end = len(context) + len(continuation)
        greedy = all(max(top.values()) == value
                     for value, top in zip(told[len(context):end], tops[len(context):end]))
        out.append((sum(told[len(context):end]), greedy))
    return out


@pytest.mark.parametrize("max_tokens", [0, 1])
def test_equal_to_transformers(client, pairs, expected, max_tokens):
    reply = client.completions.create(model="smol", prompt=[a + b for a, b in pairs], echo=True,
                                      logprobs=1, max_tokens=max_tokens, temperature=0, seed=1234)
    choices = sorted(reply.choices, key=lambda choice: choice.index)
    for pair, choice in zip(pairs, choices, strict=True):
        assert len(choice.logprobs.tokens) == len(pair[0]) + len(pair[1]) + max_tokens
    found = likelihoods(pairs, choices)
    assert [greedy for _, greedy in found] == [greedy for _, greedy in expected]
    assert [value for value, _ in found] == pytest.approx([value for value, _ in expected],
                                                          abs=TOLERANCE)


@pytest.fixture(scope="module", params=[{"batch_size": 8}, {"num_concurrent": 4}])
def harness(server, request):
    """lm-eval's own client, with many prompts in a request or many requests at once."""
    from lm_eval.models.openai_completions import LocalCompletionsAPI
    return LocalCompletionsAPI(base_url=server.url + "/v1/completions", model="smol",
                               tokenizer=str(REAL), tokenizer_backend="huggingface",
                               max_retries=1, **request.param)


def instances(kind, arguments):
    from lm_eval.api.instance import Instance
    return [Instance(kind, {}, each, i) for i, each in enumerate(arguments)]


def test_lm_eval_itself(harness, expected):
    texts = [(context, choice) for context, choices in TASK for choice in choices]
    found = harness.loglikelihood(instances("loglikelihood", texts), disable_tqdm=True)
    assert [greedy for _, greedy in found] == [greedy for _, greedy in expected]
    assert [value for value, _ in found] == pytest.approx([value for value, _ in expected],
                                                          abs=TOLERANCE)


def test_lm_eval_rolling_and_generation(harness, oracle):
    """A text's own likelihood, after the token that lm-eval begins it with; an answer ends where
    the task says."""
    text = "The capital of France is Paris. Water boils at 100 degrees."
    found = harness.loglikelihood_rolling(instances("loglikelihood_rolling", [(text,)]),
                                          disable_tqdm=True)
    value, _ = oracle([harness.prefix_token_id], harness.tok_encode(text))
    assert found == pytest.approx([value], abs=TOLERANCE)
    until = {"until": ["\n"], "max_gen_toks": 12, "temperature": 0}
    texts = harness.generate_until(instances("generate_until", [
        ("The capital of France is", until), ("The capital of France is", {**until, "until": [" P"]})
    ]), disable_tqdm=True)
    assert texts == [" Paris.", ""]


def test_one_alone_is_the_same(client, pairs):
    def ask(prompts):
        reply = client.completions.create(model="smol", prompt=prompts, echo=True, logprobs=1,
                                          max_tokens=1, temperature=0)
        return sorted(reply.choices, key=lambda choice: choice.index)

    together = likelihoods(pairs, ask([a + b for a, b in pairs]))
    alone = [likelihoods([pair], ask([pair[0] + pair[1]]))[0] for pair in pairs]
    assert together == alone  # every bit: a sum's order is its own
