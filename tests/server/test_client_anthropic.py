"""The anthropic package as a client of /v1/messages.

SPDX-License-Identifier: Apache-2.0
"""
import anthropic
import pytest

CAPITAL = [{"role": "user", "content": "What is the capital of France?"}]
ANSWER = "The capital of France is Paris."
ADD = {"name": "add", "description": "Add two numbers",
       "input_schema": {"type": "object", "required": ["a", "b"],
                        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}}
FIELDS = {"model": "smol", "max_tokens": 80, "extra_body": {"temperature": 0}}


@pytest.fixture(scope="module")
def claude(server):
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as made:
        yield made


def test_message(claude):
    reply = claude.messages.create(messages=CAPITAL, **FIELDS)
    assert isinstance(reply.content[0], anthropic.types.TextBlock)
    assert reply.content[0].text == ANSWER and reply.stop_reason == "end_turn"
    count = claude.messages.count_tokens(model="smol", messages=CAPITAL).input_tokens
    assert reply.usage.input_tokens + reply.usage.cache_read_input_tokens == count
    assert reply.usage.cache_creation_input_tokens == 0
    assert reply.usage.output_tokens_details.thinking_tokens == 0
    again = claude.messages.create(messages=CAPITAL, **FIELDS).usage
    assert (again.cache_read_input_tokens, again.input_tokens) == (count - 1, 1)


def test_stream(claude):
    with claude.messages.stream(messages=CAPITAL, **FIELDS) as stream:
        pieces = list(stream.text_stream)
        final = stream.get_final_message()
    assert len(pieces) > 1 and "".join(pieces) == ANSWER == final.content[0].text
    assert final.stop_reason == "end_turn" and final.usage.output_tokens == 8


def test_system_and_stop(claude):
    reply = claude.messages.create(messages=CAPITAL, stop_sequences=["Paris"], **FIELDS)
    assert (reply.stop_reason, reply.stop_sequence) == ("stop_sequence", "Paris")
    reply = claude.messages.create(messages=CAPITAL, system="You answer in one sentence.", **FIELDS)
    assert "Paris" in reply.content[0].text


def test_tool_loop(claude):
    messages = [{"role": "user", "content": "Add 2 and 3."}]
    tools = {"tools": [ADD], **FIELDS}
    choice = {"type": "any", "disable_parallel_tool_use": True}
    reply = claude.messages.create(messages=messages, tool_choice=choice, **tools)
    block = reply.content[0]
    assert isinstance(block, anthropic.types.ToolUseBlock) and reply.stop_reason == "tool_use"
    assert block.name == "add" and {type(value) for value in block.input.values()} == {int}
    with claude.messages.stream(messages=messages, tool_choice=choice, **tools) as stream:
        streamed = stream.get_final_message()
    assert streamed.content[0].input == block.input and streamed.stop_reason == "tool_use"
    messages += [{"role": "assistant", "content": reply.content},
                 {"role": "user", "content": [{"type": "tool_result", "tool_use_id": block.id,
                                               "content": "5"}]}]
    last = claude.messages.create(messages=messages, tool_choice={"type": "none"}, **tools)
    assert last.content[0].type == "text" and last.content[0].text


def test_errors(claude):
    with pytest.raises(anthropic.NotFoundError, match="does not exist"):
        claude.messages.create(messages=CAPITAL, **{**FIELDS, "model": "other"})
    with pytest.raises(anthropic.BadRequestError, match="maximum context length"):
        claude.messages.create(messages=CAPITAL, **{**FIELDS, "max_tokens": 20000})
