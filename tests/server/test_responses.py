"""/v1/responses, by the openai package.

SPDX-License-Identifier: Apache-2.0
"""
import json

import openai
import pytest
from pydantic import BaseModel

CAPITAL = "What is the capital of France?"
ANSWER = "The capital of France is Paris."
ADD = {"type": "function", "name": "add", "description": "Add two numbers",
       "parameters": {"type": "object", "required": ["a", "b"],
                      "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}}


def test_text(client):
    reply = client.responses.create(model="smol", input=CAPITAL, temperature=0)
    assert reply.output_text == ANSWER and reply.status == "completed"
    assert reply.usage.output_tokens == 8 and reply.usage.input_tokens > 20


def test_items(client):
    turns = [{"role": "user", "content": [{"type": "input_text", "text": "Hello."}]},
             {"type": "message", "role": "assistant", "status": "completed", "id": "msg_1",
              "content": [{"type": "output_text", "text": "Hello!", "annotations": []}]},
             {"role": "user", "content": CAPITAL}]
    reply = client.responses.create(model="smol", input=turns, temperature=0,
                                    instructions="You answer in one sentence.")
    assert "Paris" in reply.output_text


def test_reasoning_and_a_message_without_content(server):
    items = [{"role": "user", "content": CAPITAL},
             {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "r"}]},
             {"type": "message", "role": "assistant"}, {"role": "user", "content": CAPITAL}]
    reply = server.post("/v1/responses", {"input": items, "max_output_tokens": 2})
    assert reply.status == 200, reply.body


@pytest.mark.parametrize("tokens,last", [(None, "response.completed"), (3, "response.incomplete")])
def test_stream(client, tokens, last):
    fields = {"max_output_tokens": tokens} if tokens else {}
    events = list(client.responses.create(model="smol", input=CAPITAL, temperature=0, stream=True,
                                          **fields))
    assert [e.sequence_number for e in events] == list(range(len(events)))
    assert events[0].type == "response.created" and events[-1].type == last
    text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert ANSWER.startswith(text) and events[-1].response.output_text == text
    done = [e for e in events if e.type == "response.output_text.done"]
    assert [e.text for e in done] == [text]
    if tokens:
        assert events[-1].response.incomplete_details.reason == "max_output_tokens"


def test_tool_call_and_its_result(client):
    fields = {"model": "smol", "temperature": 0, "tools": [ADD], "max_output_tokens": 80}
    for choice in ("required", {"type": "function", "name": "add"}):
        reply = client.responses.create(input="Add 2 and 3.", tool_choice=choice,
                                        parallel_tool_calls=False, **fields)
        call = reply.output[0]
        assert (call.type, call.name) == ("function_call", "add")
        assert set(json.loads(call.arguments)) == {"a", "b"}
    events = list(client.responses.create(input="Add 2 and 3.", tool_choice="required",
                                          parallel_tool_calls=False, stream=True, **fields))
    deltas = [e.delta for e in events if e.type == "response.function_call_arguments.delta"]
    assert "".join(deltas) == call.arguments
    items = [{"role": "user", "content": "Add 2 and 3."}, call.model_dump(),
             {"type": "function_call_output", "call_id": call.call_id, "output": "5"}]
    reply = client.responses.create(input=items, tool_choice="none", **fields)
    assert reply.output_text


def test_format(client):
    class Place(BaseModel):
        city: str
        is_capital: bool

    reply = client.responses.parse(model="smol", input=CAPITAL, temperature=0, text_format=Place,
                                   max_output_tokens=150)
    assert isinstance(reply.output_parsed, Place)


@pytest.mark.parametrize("fields,text", [
    ({"previous_response_id": "resp_1"}, "stores nothing"), ({"background": True}, "stores nothing"),
    ({"tools": [{"type": "web_search"}]}, "web_search"), ({"input": []}, "messages"),
    ({"input": [{"type": "item_reference", "id": "x"}]}, "item_reference"),
    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
     "input_image")])
def test_what_is_refused(client, fields, text):
    with pytest.raises(openai.BadRequestError, match=text):
        client.responses.create(**{"model": "smol", "input": "a", **fields})
