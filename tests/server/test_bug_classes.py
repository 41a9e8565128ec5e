"""The bugs that servers like this one are reported for most, a test or more for each class.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import threading
import time

import pytest
from measure import request, work_after_leaving
from serving import Server, text_of

CAPITAL = "What is the capital of France?"
ANSWER = "The capital of France is Paris."


def test_01_prompt_silently_cut(server):
    """A prompt of every length up to the context is read whole; a longer one is refused."""
    words = "one " * 2020
    reply = server.complete(words, max_tokens=2)
    assert reply.json["usage"]["prompt_tokens"] == server.post("/tokenize", {"prompt": words}).json["count"]
    reply = server.complete("one " * 3000, max_tokens=2)
    count = server.post("/tokenize", {"prompt": "one " * 3000}).json["count"]
    assert reply.status == 400 and "maximum context length is 2048 tokens" in reply.error
    assert str(count) in reply.error and reply.json["error"]["param"] == "input_tokens"
    assert server.chat("one " * 3000).status == 400


def test_01_default_context_is_the_models(packed):
    with Server(packed) as started:
        assert "context 8192 (the model's)" in started.settings


def cached(reply):
    return reply.json["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_02_prefix_cache_missed(server):
    """A conversation that grows is read from where it ended, also with another in between."""
    def talk(name):
        return [{"role": "system", "content": f"You are {name}. " + "Be brief and kind. " * 20},
                {"role": "user", "content": CAPITAL}]

    talks = [talk("Ann"), talk("Bob")]
    for messages in talks:
        first = server.chat(messages, max_tokens=12)
        messages += [first.json["choices"][0]["message"], {"role": "user", "content": "And Italy?"}]
    for messages in talks:
        second = server.chat(messages, max_tokens=12)
        prompt = second.json["usage"]["prompt_tokens"]
        assert prompt - cached(second) < 48, (prompt, cached(second))
    edited = talks[0][:-1] + [{"role": "user", "content": "And Spain?"}]
    assert cached(server.chat(edited, max_tokens=4)) > 100
    assert server.metric("prefix_cache_hits_total") > 300


STOPS_S = 0.1


def check_stops(server, body, reached, wait, tries=7):
    """Work ends at once where the client leaves. The worst of some tries may be another program's
    doing, the median not."""
    made = [work_after_leaving(server, body(i), lambda i=i: wait(i)) for i in range(tries)]
    times = sorted(seconds for seconds, _ in made)
    assert {where for _, where in made} == {reached}, made
    assert times[tries // 2] < STOPS_S and times[-1] < 10 * STOPS_S, times
    assert server.get("/load").json == {"server_load": 0} or reached == "queue"


def long_prompt(i):
    """Of 4,000 tokens; no two begin alike, so that the prefix cache has none of it."""
    return [1000 + (i + k) * 7919 % 30000 for k in range(4000)]


@pytest.fixture(scope="module")
def one(packed):
    with Server(packed, "--parallel", 1) as started:
        yield started


def test_03_client_gone_in_the_prompt(one):
    def wait(i):
        one.wait_running()
        time.sleep(0.05 * i)

    check_stops(one, lambda i: {"prompt": long_prompt(i), "max_tokens": 10}, "prompt", wait)
    check_stops(one, lambda i: {"prompt": long_prompt(50 + i), "max_tokens": 0, "echo": True,
                                "logprobs": 5}, "prompt", wait)
    assert one.wait_idle() < 2


@pytest.mark.parametrize("stream", [False, True])
def test_03_client_gone_but_generation_runs_on(one, stream):
    def wait(i):
        before = one.metric("generation_tokens_total")
        while one.metric("generation_tokens_total") < before + 2 + i:
            time.sleep(0.005)

    check_stops(one, lambda _: {"prompt": "word", "max_tokens": 4000, "ignore_eos": True,
                                "stream": stream}, "answer", wait)
    assert one.wait_idle() < 2


def test_03_client_gone_in_the_queue(one):
    def wait(_):
        while one.metric("num_requests_waiting") < 1:
            time.sleep(0.005)

    busy, _ = request(one, {"prompt": long_prompt(90), "max_tokens": 4000, "ignore_eos": True},
                      "busy")
    one.wait_running()
    check_stops(one, lambda _: {"prompt": "word", "max_tokens": 10}, "queue", wait)
    assert one.metric("num_requests_running") == 1 and one.metric("num_requests_waiting") == 0
    busy.close()
    assert one.wait_idle() < 2


def test_03_client_of_many_choices_gone(tiny_folder):
    """Most of its sequences wait: all of them end."""
    with Server(tiny_folder, "--parallel", 2, "--queue", 8) as server:
        check_stops(server, lambda _: {"prompt": "word", "n": 128, "max_tokens": 500,
                                       "ignore_eos": True},
                    "answer", lambda i: time.sleep(0.1 + 0.01 * i))
        assert server.wait_idle() < 2


def test_04_tool_calls_streamed_wrong(server):
    """No markup in content, arguments as written, the same whole and streamed."""
    tools = [{"type": "function",
              "function": {"name": "add", "parameters": {
                  "type": "object", "required": ["a", "b"],
                  "properties": {"a": {"type": "integer"}, "b": {"type": "string",
                                                                 "maxLength": 12}}}}}]
    fields = {"tools": tools, "tool_choice": "required", "parallel_tool_calls": False,
              "max_tokens": 100}
    whole = server.chat("Add 2 and 3.", **fields).json["choices"][0]
    call = whole["message"]["tool_calls"][0]["function"]
    assert isinstance(json.loads(call["arguments"])["a"], int)
    events = server.chat("Add 2 and 3.", stream=True, **fields).events
    deltas = [d for e in events for d in e["choices"][0]["delta"].get("tool_calls", [])]
    assert "".join(d["function"].get("arguments", "") for d in deltas) == call["arguments"]
    assert [set(d) for d in deltas] == [{"index", "id", "type", "function"}] + \
        [{"index", "function"}] * (len(deltas) - 1)
    assert text_of(events) == "" and whole["message"]["content"] is None
    assert events[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_04_tool_choice_none_gives_text(server):
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    message = server.chat(CAPITAL, tools=tools, tool_choice="none", max_tokens=20).json["choices"][0]["message"]
    assert "tool_calls" not in message and message["content"]


def thinking_server(tmp_path, template, **options):
    """A model that copies nothing: only its template matters here."""
    import tiny
    folder = tmp_path / "thinks"
    tiny.make(folder, {**tiny.config("qwen3"), "max_position_embeddings": 512, "eos_token_id": 0})
    vocabulary = tiny.byte_tokenizer()
    for i, mark in enumerate(("<think>", "</think>")):
        vocabulary["added_tokens"].append({"id": 257 + i, "content": mark, "single_word": False,
                                           "lstrip": False, "rstrip": False, "normalized": False,
                                           "special": False})
    tiny.write_json(folder / "tokenizer.json", vocabulary)
    tiny.write_json(folder / "generation_config.json", {"eos_token_id": 0})
    (folder / "chat_template.jinja").write_text(template)
    return Server(folder, **options)


def test_05_reasoning_and_content_mixed(tmp_path):
    """Where the template has opened the reasoning, what the model writes is reasoning."""
    template = ("{% for m in messages %}{{ m.content }}{% endfor %}"
                "{% if add_generation_prompt %}<think>\n{% endif %}{# </think> #}")
    with thinking_server(tmp_path, template) as server:
        assert "reasoning think" in server.settings
        bias = {"258": 100}  # </think>
        reply = server.chat("a", max_tokens=6, logit_bias={"258": -100}).json
        assert reply["usage"]["completion_tokens_details"] == {"reasoning_tokens": 6}
        free = reply["choices"][0]["message"]
        assert free["content"] in ("", None) and free["reasoning"]
        closed = server.chat("a", max_tokens=1, logit_bias=bias).json["choices"][0]["message"]
        assert "think" not in (closed["content"] or "") + (closed["reasoning"] or "")
        typed = server.chat("what does </think> mean?", max_tokens=4,
                            logit_bias={"258": -100}).json["choices"][0]["message"]
        assert typed["reasoning"] and not typed["content"]
        events = server.chat("a", max_tokens=6, logit_bias={"258": -100}, stream=True).events
        streamed = "".join(e["choices"][0]["delta"].get("reasoning", "") for e in events)
        assert streamed == free["reasoning"] and text_of(events) == ""


def test_05_reasoning_effort(tmp_path):
    """The template hears of it; where there is to be none, none is shown, but counted."""
    template = ("{% for m in messages %}{{ m.content }}{% endfor %}{{ reasoning_effort }}"
                "{% if enable_thinking is not defined or enable_thinking %}<think>\n{% endif %}")
    with thinking_server(tmp_path, template) as server:
        fields = {"max_tokens": 6, "logit_bias": {"258": -100}}

        def ask(**more):
            reply = server.chat("a", **fields, **more).json
            message = reply["choices"][0]["message"]
            return (reply["usage"]["prompt_tokens"], message["content"], message["reasoning"],
                    reply["usage"]["completion_tokens_details"]["reasoning_tokens"])

        length, content, reasoning, n = ask()
        assert not content and reasoning and n == 6
        assert ask(reasoning_effort="low")[0] == length + 3
        assert ask(reasoning_effort="low", chat_template_kwargs={"reasoning_effort": ""})[0] == length
        assert ask(include_reasoning=True) == (length, content, reasoning, n)
        assert ask(include_reasoning=False) == (length, content, None, 6)
        events = server.chat("a", stream=True, include_reasoning=False, **fields).events
        assert all(not e["choices"][0]["delta"].get("reasoning") for e in events)
        shorter = ask(reasoning_effort="none")
        assert shorter[0] == length + 4 - 2 and shorter[1] and shorter[2] is None
        thinks = ask(reasoning_effort="none", chat_template_kwargs={"enable_thinking": True})
        assert thinks[0] == length + 4 and not thinks[1] and thinks[2] is None and thinks[3] == 6
        for wrong in ("much", 5):
            reply = server.chat("a", reasoning_effort=wrong, **fields)
            assert reply.status == 400 and reply.json["error"]["param"] == "reasoning_effort"


def test_05_reasoning_effort_of_responses(tmp_path):
    """As chat's: the template hears of it, and "none" shows none."""
    template = ("{% for m in messages %}{{ m.content }}{% endfor %}{{ reasoning_effort }}"
                "{% if enable_thinking is not defined or enable_thinking %}<think>\n{% endif %}")
    with thinking_server(tmp_path, template) as server:
        def ask(**fields):
            return server.post("/v1/responses", {"input": "a", "max_output_tokens": 6, **fields})

        def length(**fields):
            return ask(**fields).json["usage"]["input_tokens"]

        plain = length()
        assert length(reasoning={"effort": "low", "summary": "auto"}) == plain + 3
        assert length(reasoning={"effort": None}) == length(reasoning=None) == plain
        assert length(reasoning={"effort": "low"},
                      chat_template_kwargs={"reasoning_effort": ""}) == plain
        thinks = ask(reasoning={"effort": "none"}, chat_template_kwargs={"enable_thinking": True}).json
        assert "reasoning" not in [item["type"] for item in thinks["output"]]
        assert thinks["usage"]["output_tokens_details"]["reasoning_tokens"] > 0
        for fields, param in (({"reasoning": {"effort": "much"}}, "reasoning.effort"),
                              ({"reasoning": {"effort": 5}}, "reasoning.effort"),
                              ({"reasoning": "low"}, "reasoning"),
                              ({"chat_template_kwargs": [1]}, "chat_template_kwargs")):
            reply = ask(**fields)
            assert reply.status == 400 and reply.json["error"]["param"] == param


def test_06_template_fails(tiny_folder):
    """What a template refuses is the client's 400 with the template's words, and ends nothing."""
    with Server(tiny_folder) as server:
        bad = "{{ raise_exception('roles must alternate') }}"
        reply = server.chat("a", chat_template=bad)
        assert reply.status == 400 and "roles must alternate" in reply.error
        for text in ("{% for %}", "{{ messages[0].nothing.at.all }}", "{% if %}" * 1000,
                     "{% for i in range(100000000) %}{{ i }}{% endfor %}"):
            assert server.chat("a", chat_template=text).status == 400
        assert server.chat("a", max_tokens=1).status == 200


def test_07_token_ids_differ(server):
    """A templated prompt has the template's special tokens once."""
    messages = [{"role": "user", "content": "hi"}]
    ids = server.post("/tokenize", {"messages": messages}).json["tokens"]
    text = server.post("/detokenize", {"tokens": ids}).json["prompt"]
    assert text.count("<|im_start|>user") == 1 and text.startswith("<|im_start|>")
    assert server.post("/tokenize", {"prompt": text, "add_special_tokens": False}).json["tokens"] == ids
    assert server.chat(messages, max_tokens=1).json["usage"]["prompt_tokens"] == len(ids)


TEXTS = ["Grüße 🇫🇷 👩‍👩‍👧 日本語", "\u0000\u0001", "\u0085\u2028\u2029", "e\u0301" * 20, "\U0010ffff"]


@pytest.mark.parametrize("text", TEXTS)
def test_08_utf8_split_or_corrupt(server, text):
    ids = server.post("/tokenize", {"prompt": text, "add_special_tokens": False}).json["tokens"]
    assert server.post("/detokenize", {"tokens": ids}).json["prompt"] == text
    reply = server.complete(text, echo=True, max_tokens=1, logprobs=0)
    assert reply.json["choices"][0]["text"].startswith(text)


def test_08_bytes_of_split_characters(tiny_folder):
    """A token a byte: text comes whole or as U+FFFD, logprobs have the bytes, streams agree."""
    with Server(tiny_folder) as server:
        assert "charset=utf-8" in server.chat("a", max_tokens=1, stream=True).headers["Content-Type"]
        for seed in range(5):
            fields = {"max_tokens": 40, "temperature": 2, "seed": seed, "logprobs": True}
            whole = server.chat("ä", **fields).json["choices"][0]
            events = server.chat("ä", stream=True, **fields).events
            assert text_of(events) == whole["message"]["content"]
            made = bytes(b for t in whole["logprobs"]["content"] for b in t["bytes"])
            assert made.decode(errors="replace") == whole["message"]["content"]
            streamed = [t for e in events for t in (e["choices"][0]["logprobs"] or {}).get("content", [])]
            assert streamed == whole["logprobs"]["content"]


@pytest.mark.parametrize("stop", ["France", " is Par", "capital of", "The", "zzz", "Paris.", "s"])
@pytest.mark.parametrize("included", [False, True])
def test_09_stop_strings_leak_or_cut(server, stop, included):
    fields = {"stop": ["qqq", stop], "include_stop_str_in_output": included}
    at = ANSWER.find(stop)
    wanted = ANSWER if at < 0 else ANSWER[:at + (len(stop) if included else 0)]
    choice = server.chat(CAPITAL, **fields).json["choices"][0]
    assert choice["message"]["content"] == wanted
    assert choice["stop_reason"] == (stop if at >= 0 else None)
    assert choice["finish_reason"] == "stop"
    assert text_of(server.chat(CAPITAL, stream=True, **fields).events) == wanted


def test_10_never_stops(server):
    """eos ends, ignore_eos does not, stop_token_ids end and are named."""
    assert server.chat(CAPITAL).json["choices"][0]["finish_reason"] == "stop"
    long = server.chat(CAPITAL, ignore_eos=True, max_tokens=20).json
    assert long["choices"][0]["finish_reason"] == "length"
    assert long["usage"]["completion_tokens"] == 20
    paris = server.post("/tokenize", {"prompt": " Paris", "add_special_tokens": False}).json["tokens"][0]
    choice = server.chat(CAPITAL, stop_token_ids=[paris]).json["choices"][0]
    assert choice["message"]["content"] == "The capital of France is" and choice["stop_reason"] == paris


def test_10_logits_that_are_no_numbers(tmp_path):
    import tiny
    weights = tiny.tensors(tiny.config())
    weights["model.norm.weight"][:] = 0x7FC0  # NaN
    folder = tmp_path / "nan"
    tiny.make(folder, tiny.config(), weights)
    tiny.write_json(folder / "tokenizer.json", tiny.byte_tokenizer())
    (folder / "chat_template.jinja").write_text(tiny.PLAIN_TEMPLATE)
    with Server(folder) as server:
        reply = server.chat("a", max_tokens=3)
        assert reply.status == 500 and reply.error
        events = server.chat("a", max_tokens=3, stream=True).events
        assert events[-1]["error"]["code"] == 500
        assert server.get("/health").status == 200


def test_11_structured_output_ignored(server):
    """A keyword that cannot be held is a 400 that names it; what can be held is held."""
    def ask(schema, **fields):
        return server.chat("Give me JSON.", max_tokens=120, response_format={
            "type": "json_schema", "json_schema": {"name": "x", "schema": schema}}, **fields)

    reply = ask({"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}})
    assert reply.status == 400 and "#/properties/a/uniqueItems" in reply.error
    schema = {"type": "object", "required": ["code", "n"], "additionalProperties": False,
              "properties": {"code": {"type": "string", "pattern": r"^\d{3}-\w{2}$"},
                             "n": {"enum": [1, 2, 3]}}}
    for fields in ({}, {"temperature": 1.5, "seed": 3}):
        value = json.loads(ask(schema, **fields).json["choices"][0]["message"]["content"])
        assert value["n"] in (1, 2, 3) and value["code"][3] == "-"
    reply = server.chat("Say it.", structured_outputs={"choice": ["red", "green"]})
    assert reply.json["choices"][0]["message"]["content"] in ("red", "green")
    reply = server.chat("Say it.", structured_outputs={"regex": "[0-9]{4}"})
    assert reply.json["choices"][0]["message"]["content"].isdigit()


def test_12_echo_of_the_last_message(server):
    """The message that is continued comes back whole, where that is asked for."""
    begun = {"role": "assistant", "content": "The capital of"}
    messages = [{"role": "user", "content": CAPITAL}, begun]
    fields = {"continue_final_message": True, "add_generation_prompt": False, "n": 2}
    rest = [c["message"]["content"] for c in server.chat(messages, **fields).json["choices"]]
    whole = [c["message"]["content"]
             for c in server.chat(messages, echo=True, **fields).json["choices"]]
    assert whole == ["The capital of" + text for text in rest] and rest[0].startswith(" France")
    events = server.chat(messages, echo=True, stream=True, **{**fields, "n": 1}).events
    assert text_of(events) == whole[0]
    parts = [{"type": "text", "text": "The capital"}, {"type": "text", "text": "is"}]
    reply = server.chat([messages[0], {**begun, "content": parts}], echo=True, max_tokens=1)
    assert reply.json["choices"][0]["message"]["content"].startswith("The capital\nis")
    assert server.chat(CAPITAL, echo=True).json["choices"][0]["message"]["content"] == ANSWER
    assert server.chat(CAPITAL, echo="yes").status == 400


@pytest.mark.parametrize("messages", [
    [{"role": "user", "content": ""}], [{"role": "user", "content": None}], [{"role": "user"}],
    [{"role": "developer", "content": "be brief"}, {"role": "user", "content": "hi"}],
    [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
    [{"role": "assistant", "content": "hi"}], [{"role": "user", "content": "a", "name": "ann"}],
    [{"role": "user", "content": "a" * 20000}]])
def test_12_odd_input(server, messages):
    reply = server.chat(messages, max_tokens=2, unknown_field={"deep": [1]}, user="me",
                        metadata={}, store=False, service_tier="auto")
    assert reply.status in (200, 400), reply.body
    assert reply.status == 200 or len(messages[0]["content"]) > 1000


def test_13_usage_logprobs_chunk_shape(server):
    fields = {"stream": True, "logprobs": True, "top_logprobs": 1, "max_tokens": 5,
              "stream_options": {"include_usage": True}}
    events = server.chat(CAPITAL, **fields).events
    assert len({(e["id"], e["created"], e["model"], e["object"]) for e in events}) == 1
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert events[-1]["choices"] == [] and events[-1]["usage"]["completion_tokens"] == 5
    assert all("usage" not in e for e in events[:-1])
    assert sum(len((e["choices"][0]["logprobs"] or {"content": []})["content"])
               for e in events[:-1]) == 5
    assert [e["choices"][0]["finish_reason"] for e in events[:-1]][-1] == "length"
    without = server.chat(CAPITAL, stream=True, max_tokens=5).events
    assert all(e["choices"] for e in without)


def test_13_echo_logprobs(server):
    """What lm-eval reads: a logprob for each token of the prompt but the first."""
    reply = server.complete("The capital of France is Paris", echo=True, logprobs=1, max_tokens=1)
    found = reply.json["choices"][0]["logprobs"]
    assert "".join(found["tokens"]) == reply.json["choices"][0]["text"]
    assert found["token_logprobs"][0] is None and found["top_logprobs"][0] is None
    assert all(p <= 0 for p in found["token_logprobs"][1:])
    text = reply.json["choices"][0]["text"]
    for token, at in zip(found["tokens"], found["text_offset"]):
        assert text[at:at + len(token)] == token
    only = server.complete("The capital of France is Paris", echo=True, logprobs=1, max_tokens=0)
    assert only.json["choices"][0]["text"] == "The capital of France is Paris"
    assert only.json["choices"][0]["logprobs"]["token_logprobs"] == found["token_logprobs"][:-1]
    ids = server.post("/tokenize", {"prompt": "The capital of France is Paris"}).json["tokens"]
    by_ids = server.complete([ids], echo=True, logprobs=1, max_tokens=0)
    assert by_ids.json["choices"][0]["logprobs"] == only.json["choices"][0]["logprobs"]


def test_14_temperature_0_under_load(server):
    """Each greedy answer, with its log-probabilities, is the same bits alone and in company."""
    prompts = [f"{i} is a number that" for i in range(8)]

    def ask(prompt):
        reply = server.complete(prompt, max_tokens=16, logprobs=2, ignore_eos=True)
        return reply.json["choices"][0]["text"], reply.json["choices"][0]["logprobs"]

    alone = [ask(p) for p in prompts]
    together = [None] * len(prompts)

    def work(i):
        together[i] = ask(prompts[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(prompts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def test_15_settings_are_told(server):
    """What was chosen is said at the start: family, layout, memory, context, parsers, backend."""
    for word in ("llama", "mma12", "weights", "context 2048", "4 at once", "tool calls hermes",
                 "reasoning none", "cpu (", f"{os.cpu_count()} thread"):
        assert word in server.settings, word
