"""Tool calls on their way back: a client's messages render as transformers renders them, and what
a template writes as a call is read as that call.

    pytest tests/text/test_answer.py        needs transformers; GLYD_BUILD names the build folder

transformers is given messages as templates want them (arguments as objects, content as text); glyd
gets them as OpenAI's clients send them.

SPDX-License-Identifier: Apache-2.0
"""
import copy
import json
import os
import pathlib
import subprocess

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

import template_cases as cases

HERE = pathlib.Path(__file__).parent
BUILD = pathlib.Path(os.environ.get("GLYD_BUILD", HERE.parent.parent / "build" / "release"))
MODEL = HERE.parent.parent / "model" / "SmolLM2-135M-Instruct"
TOOLS = [cases.WEATHER, cases.NESTED]
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
EXTRA = {"date_string": "26 Jul 2024"}
E_UNSUPPORTED, E_FORMAT = 11, 21

ARGUMENTS = {"city": "Zürich \"x\" </tool_call>", "days": 3, "deep": {"list": [1.5, None, True, {}]}}
USER = {"role": "user", "content": "What is the weather?"}
RESULT = '{"temperature": 21.5, "sky": "☀"}'


def call(id, name="get_weather", arguments=ARGUMENTS):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


# Conversations as templates want them; ids are what mistral's templates accept.
CONVERSATIONS = {
    "one": [USER, {"role": "assistant", "content": "", "tool_calls": [call("abcdefgh1")]},
            {"role": "tool", "content": RESULT, "tool_call_id": "abcdefgh1"}],
    "system": [cases.SYSTEM, USER, {"role": "assistant", "content": "", "tool_calls": [call("abcdefgh1")]},
               {"role": "tool", "content": RESULT, "tool_call_id": "abcdefgh1"},
               {"role": "assistant", "content": "Sunny."}, cases.MORE],
    "two": [USER, {"role": "assistant", "content": "",
                   "tool_calls": [call("abcdefgh1"), call("abcdefgh2", "book-trip", {})]},
            {"role": "tool", "content": RESULT, "tool_call_id": "abcdefgh1"},
            {"role": "tool", "content": "done", "tool_call_id": "abcdefgh2"}],
    "text": [USER, {"role": "assistant", "content": "I look.", "tool_calls": [call("abcdefgh1")]},
             {"role": "tool", "content": "Two\nlines", "tool_call_id": "abcdefgh1"}],
    "thought": [USER, {"role": "assistant", "content": "", "reasoning": "Hm.", "reasoning_content": "Hm.",
                       "tool_calls": [call("abcdefgh1")]},
                {"role": "tool", "content": RESULT, "tool_call_id": "abcdefgh1"}],
}


def as_clients_send(messages):
    """The same conversation as OpenAI's clients have it."""
    sent = copy.deepcopy(messages)
    for message in sent:
        for c in message.get("tool_calls", []):
            c["function"]["arguments"] = json.dumps(c["function"]["arguments"], ensure_ascii=False)
        if message["content"] == "" and "tool_calls" in message:
            message["content"] = None
        elif message["role"] in ("tool", "user"):
            message["content"] = [{"type": "text", "text": message["content"]}]
        message.pop("reasoning_content", None)
        if message["role"] == "assistant":
            message.update(refusal=None, audio=None, function_call=None)
    return sent


def template_files():
    names = ["qwen25", "qwen3", "llama3", "mistral", "chatml", "deepseek"]
    return {name: (HERE / "templates" / f"{name}.jinja").read_text(encoding="utf-8") for name in names}


TEMPLATES = template_files()


def smollm2():
    if (MODEL / "chat_template.jinja").exists():
        return (MODEL / "chat_template.jinja").read_text(encoding="utf-8")
    config = MODEL / "tokenizer_config.json"
    return json.loads(config.read_text(encoding="utf-8"))["chat_template"] if config.exists() else None


def glyd(requests):
    lines = "\n".join(json.dumps(r) for r in requests) + "\n"
    run = subprocess.run([BUILD / "answer_tool"], input=lines, capture_output=True, text=True,
                         encoding="utf-8", timeout=300)
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.split("\n") if line]


def request(template, messages, tools=TOOLS, prompt=True, **more):
    return {"template": template, "messages": messages, "tools": tools, "prompt": prompt,
            "special_tokens": TOKENS, "extra": EXTRA, **more}


def transformers(template, messages, tools=TOOLS, prompt=True):
    """The text, or None where the template refuses the messages."""
    try:
        texts, _ = render_jinja_template([messages], tools=tools, chat_template=template,
                                         add_generation_prompt=prompt, **TOKENS, **EXTRA)
    except Exception:  # noqa: BLE001 - whatever it is, glyd must fail too
        return None
    return texts[0]


def check_round_trip(template):
    rendered = 0
    for name, messages in CONVERSATIONS.items():
        [got] = glyd([request(template, as_clients_send(messages))])
        wanted = transformers(template, messages)
        assert got.get("text") == wanted, (name, got)
        rendered += wanted is not None
    return rendered


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_round_trip(name):
    # llama3's refuses two calls in one turn, and glyd does where it does.
    assert check_round_trip(TEMPLATES[name]) == len(CONVERSATIONS) - (name == "llama3")


def test_round_trip_smollm2():
    template = smollm2()
    if template is None:
        pytest.skip("no model/SmolLM2-135M-Instruct")
    assert check_round_trip(template) == len(CONVERSATIONS)


@pytest.mark.parametrize("name", ["qwen25", "qwen3", "llama3", "mistral"])
def test_a_rendered_call_is_read_back(name):
    """What the template writes after the prompt for an assistant's calls is what the model learnt
    to write: it parses to the same calls."""
    template = TEMPLATES[name]
    calls = [call("abcdefgh1", arguments={"city": "Zürich \"x\" ☀", "n": [1, {"a": "}"}]})]
    if name != "llama3":
        calls.append(call("abcdefgh2", "book-trip", {}))
    turn = {"role": "assistant", "content": "", "tool_calls": calls}
    prompt = transformers(template, [USER], prompt=True)
    whole = transformers(template, [USER, turn], prompt=False)
    if not whole.startswith(prompt):  # the template writes the list of tools elsewhere
        prompt = transformers(template, [USER], prompt=False)
    assert whole.startswith(prompt)
    text = whole[len(prompt):]
    for ending in ("<|im_end|>\n", "<|eot_id|>", "<|eom_id|>", "</s>"):
        text = text.removesuffix(ending)
    text = text.removeprefix("<|im_start|>assistant\n")
    text = text.removeprefix("<|start_header_id|>assistant<|end_header_id|>\n\n")
    [got] = glyd([request(template, [USER], answer=text)])
    assert got["content"] == ""
    assert [(c["name"], json.loads(c["arguments"])) for c in got["calls"]] == \
        [(c["function"]["name"], c["function"]["arguments"]) for c in calls]


def ready(message, template="{{ messages }}"):
    [got] = glyd([request(template, [message])])
    return got["messages"][0] if "messages" in got else got


def ready_arguments(text):
    message = {"role": "assistant", "content": None, "tool_calls": [call("x", arguments=text)]}
    return ready(message)["tool_calls"][0]["function"]["arguments"]


def test_arguments():
    assert ready_arguments('{"a": [1, 2.50, "\\u0000é"]}') == {"a": [1, 2.5, "\0é"]}
    assert ready_arguments("") == ready_arguments(" \n") == ready_arguments(None) == {}
    assert ready_arguments({"a": 1}) == {"a": 1}
    assert ready_arguments("[1]") == [1]
    # A model wrote it: the conversation goes on.
    assert ready_arguments('{"a": tru') == '{"a": tru'
    assert ready_arguments('{"a": 123456789012345678901}') == '{"a": 123456789012345678901}'


def test_content():
    def content(value):
        return ready({"role": "user", "content": value})["content"]
    assert content("as it is \n") == "as it is \n"
    assert content(None) == content([]) == ""
    assert content([{"type": "text", "text": "a\n"}, {"type": "text", "text": "é"}]) == "a\n\né"
    assert content([{"type": "input_text", "text": "a"}, "b"]) == "a\nb"


def test_roles():
    developer = {"role": "developer", "content": "Be brief."}
    assert ready(developer)["role"] == "system"
    assert ready(developer, "{% if m == 'developer' %}{% endif %}")["role"] == "developer"


def test_reasoning():
    for key in ("reasoning", "reasoning_content"):
        message = ready({"role": "assistant", "content": "a", key: "b"})
        assert message == {"role": "assistant", "content": "a", "reasoning": "b", "reasoning_content": "b"}


def test_members():
    message = {"role": "assistant", "content": "a", "tool_calls": [], "name": None, "extra": {"x": None}}
    assert ready(message) == {"role": "assistant", "content": "a", "extra": {"x": None}}


def test_ids():
    """mistral's templates refuse ids that are not 9 letters and digits: others are mapped, the call's and
    the result's alike."""
    messages = [USER, {"role": "assistant", "content": None, "tool_calls": [call("chatcmpl-tool-1"), call("call_2")]},
                {"role": "tool", "content": "x", "tool_call_id": "call_2"},
                {"role": "tool", "content": "y", "tool_call_id": "chatcmpl-tool-1"}]
    [got] = glyd([request(TEMPLATES["mistral"], messages)])
    first, second = [c["id"] for c in got["messages"][1]["tool_calls"]]
    assert len(first) == len(second) == 9 and (first + second).isalnum() and first != second
    assert [m["tool_call_id"] for m in got["messages"][2:]] == [second, first]
    assert "text" in got
    [same] = glyd([request(TEMPLATES["qwen25"], messages)])
    assert same["messages"][2]["tool_call_id"] == "call_2"


@pytest.mark.parametrize("message, status, error", [
    ("hello", E_FORMAT, "messages[0]: must be an object"),
    ({"content": "a"}, E_FORMAT, "messages[0]: no role"),
    ({"role": None, "content": "a"}, E_FORMAT, "messages[0]: no role"),
    ({"role": "user", "content": 5}, E_FORMAT, "messages[0].content: must be text, an array of parts, or null"),
    ({"role": "user", "content": [{"type": "image_url", "image_url": {}}]}, E_UNSUPPORTED,
     'messages[0].content[0]: a part of type "image_url"; only text is read'),
    ({"role": "user", "content": [{"type": "text"}]}, E_FORMAT, "messages[0].content[0]: no text"),
    ({"role": "user", "content": [7]}, E_FORMAT, "messages[0].content[0]: no text"),
    ({"role": "assistant", "tool_calls": {}}, E_FORMAT, "messages[0].tool_calls: must be an array"),
    ({"role": "assistant", "tool_calls": [5]}, E_FORMAT, "messages[0].tool_calls[0]: no function with a name"),
    ({"role": "assistant", "tool_calls": [{"function": {"name": 1}}]}, E_FORMAT,
     "messages[0].tool_calls[0]: no function with a name"),
])
def test_wrong_messages(message, status, error):
    assert ready(message) == {"error": error, "status": status}
