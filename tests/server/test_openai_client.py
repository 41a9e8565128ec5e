"""The openai package as a client: what most programs speak with.

SPDX-License-Identifier: Apache-2.0
"""
import asyncio

import openai
import pytest
from pydantic import BaseModel

CAPITAL = [{"role": "user", "content": "What is the capital of France?"}]
ANSWER = "The capital of France is Paris."


def test_models(client, server):
    listed = client.models.list().data
    assert [m.id for m in listed] == ["smol"]
    assert listed[0].max_model_len == 2048 and listed[0].root == "smol"


def test_chat(client):
    reply = client.chat.completions.create(model="smol", messages=CAPITAL, temperature=0)
    choice = reply.choices[0]
    assert (choice.message.content, choice.message.role) == (ANSWER, "assistant")
    assert choice.finish_reason == "stop"
    usage = reply.usage
    assert usage.completion_tokens == 8 and usage.total_tokens == usage.prompt_tokens + 8


def test_chat_stream_is_the_same_text(client):
    stream = client.chat.completions.create(model="smol", messages=CAPITAL, temperature=0,
                                            stream=True, stream_options={"include_usage": True})
    chunks = list(stream)
    assert len({c.id for c in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant"
    assert all(c.choices[0].delta.role is None for c in chunks[1:-1])
    assert "".join(c.choices[0].delta.content or "" for c in chunks[:-1]) == ANSWER
    assert [c.choices[0].finish_reason for c in chunks[:-1]] == [None] * (len(chunks) - 2) + ["stop"]
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 8


def test_async_and_at_once(server):
    async def ask(client, text):
        reply = await client.chat.completions.create(
            model="smol", messages=[{"role": "user", "content": text}], temperature=0,
            max_tokens=12)
        return reply.choices[0].message.content

    async def main():
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="x") as client:
            texts = [f"Say something about the number {i}." for i in range(6)]
            together = await asyncio.gather(*(ask(client, t) for t in texts))
            alone = [await ask(client, t) for t in texts]
            stream = await client.chat.completions.create(model="smol", messages=CAPITAL,
                                                          temperature=0, stream=True)
            pieces = [c.choices[0].delta.content or "" async for c in stream]
            return together, alone, "".join(pieces)

    together, alone, streamed = asyncio.run(main())
    assert together == alone and streamed == ANSWER


def test_completions(client):
    reply = client.completions.create(model="smol", prompt=["The capital of France is", "2 + 2 ="],
                                      max_tokens=3, temperature=0, n=1)
    assert [c.index for c in reply.choices] == [0, 1]
    assert reply.choices[0].text == " Paris.\n" and reply.choices[0].finish_reason == "length"
    whole = client.completions.create(model="smol", prompt="One, two,", max_tokens=6, temperature=0)
    stream = client.completions.create(model="smol", prompt="One, two,", max_tokens=6,
                                       temperature=0, stream=True)
    assert "".join(c.choices[0].text for c in stream) == whole.choices[0].text


def test_seed_and_choices(client):
    def texts(seed, n=3):
        reply = client.chat.completions.create(model="smol", messages=CAPITAL, temperature=1.5,
                                               seed=seed, n=n, max_tokens=10)
        assert [c.index for c in reply.choices] == list(range(n))
        return [c.message.content for c in reply.choices]

    first = texts(7)
    assert texts(7) == first and len(set(first)) > 1 and texts(8) != first
    assert texts(7, 1) == first[:1]


def test_logprobs(client):
    reply = client.chat.completions.create(model="smol", messages=CAPITAL, temperature=0,
                                           logprobs=True, top_logprobs=3)
    content = reply.choices[0].logprobs.content
    assert "".join(entry.token for entry in content) == ANSWER
    for entry in content:
        assert bytes(entry.bytes).decode() == entry.token
        assert [top.logprob for top in entry.top_logprobs] == sorted(
            (top.logprob for top in entry.top_logprobs), reverse=True)
        assert len(entry.top_logprobs) == 3 and entry.top_logprobs[0].token == entry.token
        assert -0.7 < entry.logprob <= 0 or entry.logprob < 0


def test_logit_bias_and_penalties(client, server):
    paris = server.post("/tokenize", {"prompt": " Paris", "add_special_tokens": False}).json
    assert paris["count"] == 1
    reply = client.chat.completions.create(model="smol", messages=CAPITAL, temperature=0,
                                           logit_bias={str(paris["tokens"][0]): -100})
    assert "Paris" not in reply.choices[0].message.content


def test_response_format(client):
    class Place(BaseModel):
        city: str
        population: int
        is_capital: bool

    reply = client.chat.completions.parse(model="smol", messages=CAPITAL, temperature=0,
                                          response_format=Place, max_tokens=200)
    place = reply.choices[0].message.parsed
    assert isinstance(place, Place) and isinstance(place.population, int)


WEATHER = {"type": "function",
           "function": {"name": "get_weather", "description": "The weather of a city",
                        "parameters": {"type": "object", "required": ["city"],
                                       "properties": {"city": {"type": "string", "maxLength": 20},
                                                      "unit": {"enum": ["C", "F"]}}}}}


@pytest.mark.parametrize("choice", ["required", {"type": "function",
                                                 "function": {"name": "get_weather"}}])
def test_forced_tool(client, choice):
    import json
    whole = client.chat.completions.create(model="smol", messages=CAPITAL, temperature=0,
                                           tools=[WEATHER], tool_choice=choice, max_tokens=120,
                                           parallel_tool_calls=False)
    call = whole.choices[0].message.tool_calls[0]
    assert call.function.name == "get_weather" and call.id.startswith("chatcmpl-tool-")
    assert "city" in json.loads(call.function.arguments)
    assert whole.choices[0].finish_reason == "tool_calls"
    assert whole.choices[0].message.content is None
    stream = client.chat.completions.create(model="smol", messages=CAPITAL, temperature=0,
                                            tools=[WEATHER], tool_choice=choice, max_tokens=120,
                                            parallel_tool_calls=False, stream=True)
    deltas = [d for c in stream for d in c.choices[0].delta.tool_calls or []]
    assert deltas[0].function.name == "get_weather" and deltas[0].function.arguments == ""
    assert deltas[0].id and deltas[0].type == "function"
    assert all(d.id is None and d.function.name is None for d in deltas[1:])
    assert "".join(d.function.arguments for d in deltas) == call.function.arguments


def test_tool_round_trip(client):
    messages = [*CAPITAL,
                {"role": "assistant", "content": None,
                 "tool_calls": [{"id": "chatcmpl-tool-1", "type": "function",
                                 "function": {"name": "get_weather", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "chatcmpl-tool-1", "content": "sunny"}]
    reply = client.chat.completions.create(model="smol", messages=messages, temperature=0,
                                           tools=[WEATHER], max_tokens=10)
    assert reply.choices[0].finish_reason in ("stop", "length", "tool_calls")


def test_errors(client):
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.chat.completions.create(model="other", messages=CAPITAL)
    with pytest.raises(openai.BadRequestError, match="maximum context length is 2048 tokens"):
        client.chat.completions.create(model="smol", messages=CAPITAL, max_tokens=100000)
    with pytest.raises(openai.BadRequestError, match="temperature"):
        client.chat.completions.create(model="smol", messages=CAPITAL, temperature=-1)
