"""langchain-openai, instructor and openai-agents: what programs are built on.

SPDX-License-Identifier: Apache-2.0
"""
import asyncio

import agents
import instructor
import openai
import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

CAPITAL = "What is the capital of France?"
ANSWER = "The capital of France is Paris."


class Place(BaseModel):
    city: str
    is_capital: bool


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture(scope="module")
def chain(server):
    return ChatOpenAI(base_url=server.url + "/v1", api_key="none", model="smol", temperature=0,
                      max_retries=0, max_tokens=120)


def test_langchain_chat(chain):
    reply = chain.invoke(CAPITAL)
    assert reply.content == ANSWER and reply.response_metadata["finish_reason"] == "stop"
    assert reply.usage_metadata["output_tokens"] == 8
    chunks = list(chain.stream(CAPITAL))
    assert len(chunks) > 2 and "".join(c.content for c in chunks) == ANSWER
    batch = asyncio.run(chain.abatch([CAPITAL, "Say hello.", CAPITAL]))
    assert [batch[0].content, batch[2].content] == [ANSWER, ANSWER] and batch[1].content


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_langchain_structured_output(chain, method):
    made = chain.with_structured_output(Place, method=method).invoke("Describe Paris.")
    assert isinstance(made, Place) and made.city


def test_langchain_tool_loop(chain):
    messages = [HumanMessage("Add 2 and 3.")]
    forced = chain.bind_tools([add], tool_choice="any", parallel_tool_calls=False)
    call = forced.invoke(messages)
    assert [c["name"] for c in call.tool_calls] == ["add"] and not call.invalid_tool_calls
    chunks = list(forced.stream(messages))
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    assert [c["args"] for c in whole.tool_calls] == [c["args"] for c in call.tool_calls]
    messages += [call, *(add.invoke(c) for c in call.tool_calls)]
    assert isinstance(messages[-1], ToolMessage)
    last = chain.bind_tools([add], tool_choice="none").invoke(messages)
    assert last.content and not last.tool_calls


def test_langchain_by_responses(server):
    chain = ChatOpenAI(base_url=server.url + "/v1", api_key="none", model="smol", temperature=0,
                       max_retries=0, use_responses_api=True)
    assert chain.invoke(CAPITAL).text == ANSWER
    assert "".join(c.text for c in chain.stream(CAPITAL)) == ANSWER


def instructed(server, mode):
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
    return instructor.from_openai(client, mode=mode)


FIELDS = {"model": "smol", "temperature": 0, "max_tokens": 120, "response_model": Place,
          "messages": [{"role": "user", "content": "Describe Paris."}]}


@pytest.mark.parametrize("mode", [instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA])
def test_instructor(server, mode):
    made, reply = instructed(server, mode).chat.completions.create_with_completion(
        max_retries=0, **FIELDS)
    assert isinstance(made, Place) and made.city
    assert reply.usage.completion_tokens > 0


def test_instructor_partial(server):
    parts = list(instructed(server, instructor.Mode.TOOLS).chat.completions.create_partial(**FIELDS))
    assert len(parts) > 2 and parts[-1].city and isinstance(parts[-1].is_capital, bool)


@pytest.mark.parametrize("model", [agents.OpenAIChatCompletionsModel, agents.OpenAIResponsesModel])
@pytest.mark.parametrize("stream", [False, True])
def test_agents(server, model, stream):
    """An agent calls its tool, reads what came back and answers."""
    calls = []

    @agents.function_tool
    def plus(a: int, b: int) -> int:
        """Add two numbers."""
        calls.append((a, b))
        return a + b

    async def main():
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none") as client:
            agent = agents.Agent(
                name="calculator", instructions="You add numbers.", tools=[plus],
                model=model(model="smol", openai_client=client),
                model_settings=agents.ModelSettings(temperature=0, tool_choice="required",
                                                    parallel_tool_calls=False, max_tokens=100))
            if not stream:
                return await agents.Runner.run(agent, "Add 2 and 3.")
            run = agents.Runner.run_streamed(agent, "Add 2 and 3.")
            kinds = {event.type async for event in run.stream_events()}
            assert {"raw_response_event", "run_item_stream_event"} <= kinds
            return run

    agents.set_tracing_disabled(True)
    done = asyncio.run(main())
    assert calls == [(2, 3)]
    kinds = [type(item).__name__ for item in done.new_items]
    assert kinds == ["ToolCallItem", "ToolCallOutputItem", "MessageOutputItem"]
    assert "5" in done.final_output
