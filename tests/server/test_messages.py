"""/v1/messages: Anthropic's form, event by event.

SPDX-License-Identifier: Apache-2.0
"""
import json

import pytest

CAPITAL = [{"role": "user", "content": "What is the capital of France?"}]
ANSWER = "The capital of France is Paris."
ADD = {"name": "add", "description": "Add two numbers",
       "input_schema": {"type": "object", "required": ["a", "b"],
                        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}}


def ask(server, messages=CAPITAL, **fields):
    return server.post("/v1/messages", {"model": "smol", "messages": messages, "max_tokens": 80,
                                        "temperature": 0, **fields})


def events_of(reply):
    """[(name, object)] of an event stream, whose names and types agree."""
    blocks = reply.body.decode().strip().split("\n\n")
    pairs = [block.split("\n") for block in blocks]
    events = [(name.removeprefix("event: "), json.loads(data.removeprefix("data: ")))
              for name, data in pairs]
    assert all(name == event["type"] for name, event in events)
    return events


def test_text(server):
    reply = ask(server).json
    assert reply["type"] == "message" and reply["role"] == "assistant" and reply["model"] == "smol"
    assert [(b["type"], b["text"]) for b in reply["content"]] == [("text", ANSWER)]
    assert (reply["stop_reason"], reply["stop_sequence"]) == ("end_turn", None)
    usage = reply["usage"]
    assert usage["output_tokens"] == 8
    count = server.post("/v1/messages/count_tokens", {"messages": CAPITAL}).json["input_tokens"]
    assert usage["input_tokens"] + usage["cache_read_input_tokens"] == count


def test_stream(server):
    events = events_of(ask(server, stream=True))
    names = [name for name, _ in events if name != "ping"]
    n = names.count("content_block_delta")
    assert names == ["message_start", "content_block_start", *["content_block_delta"] * n,
                     "content_block_stop", "message_delta", "message_stop"]
    text = "".join(e["delta"]["text"] for name, e in events if name == "content_block_delta")
    assert text == ANSWER
    assert events[-2][1]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}


def test_stop_reasons(server):
    assert ask(server, max_tokens=2).json["stop_reason"] == "max_tokens"
    reply = ask(server, stop_sequences=["Paris"]).json
    assert (reply["stop_reason"], reply["stop_sequence"]) == ("stop_sequence", "Paris")
    assert reply["content"][0]["text"] == "The capital of France is "


def test_system_and_blocks(server):
    system = [{"type": "text", "text": "You answer in one sentence.",
               "cache_control": {"type": "ephemeral"}}]
    messages = [{"role": "user", "content": [{"type": "text", "text": "Hello."}]},
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm",
                                                   "signature": ""},
                                                  {"type": "text", "text": "Hello!"}]}, *CAPITAL]
    assert "Paris" in ask(server, messages, system=system).json["content"][0]["text"]


def test_tool_call_and_its_result(server):
    user = {"role": "user", "content": "Add 2 and 3."}
    for choice in ({"type": "any", "disable_parallel_tool_use": True},
                   {"type": "tool", "name": "add"}):
        reply = ask(server, [user], tools=[ADD], tool_choice=choice).json
        block = reply["content"][0]
        assert reply["stop_reason"] == "tool_use" and block["type"] == "tool_use"
        assert block["name"] == "add" and set(block["input"]) == {"a", "b"}
        events = events_of(ask(server, [user], tools=[ADD], tool_choice=choice, stream=True))
        pieces = [e["delta"]["partial_json"] for name, e in events if name == "content_block_delta"]
        assert json.loads("".join(pieces)) == block["input"]
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": block["id"],
                                           "content": [{"type": "text", "text": "5"}]}]}
    again = ask(server, [user, {"role": "assistant", "content": [block]}, result], tools=[ADD],
                tool_choice={"type": "none"})
    assert again.status == 200 and again.json["content"][0]["type"] == "text"


@pytest.mark.parametrize("fields,text", [
    ({"max_tokens": None}, "max_tokens"), ({"messages": []}, "messages"),
    ({"messages": [{"role": "system", "content": "a"}]}, "role"),
    ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "image"),
    ({"tools": [{"name": "f"}]}, "input_schema"), ({"system": 5}, "system"),
    ({"max_tokens": 100000}, "maximum context length is")])
def test_errors_in_anthropics_form(server, fields, text):
    reply = ask(server, **fields)
    assert reply.status == 400 and reply.json["type"] == "error"
    assert reply.json["error"]["type"] == "invalid_request_error"
    assert text in reply.json["error"]["message"]
