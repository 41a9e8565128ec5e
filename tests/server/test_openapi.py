"""openapi.json against the server: every path is there, every request and reply is as it says.

SPDX-License-Identifier: Apache-2.0
"""
import jsonschema
import pytest


@pytest.fixture(scope="module")
def described(server):
    return server.get("/openapi.json").json


def validator(described, schema):
    return jsonschema.Draft202012Validator({**schema, "components": described["components"]})


def check(described, method, path, body, reply):
    operation = described["paths"][path][method]
    if body is not None:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        validator(described, schema).validate(body)
    answer = operation["responses"][str(reply.status)]
    kind = reply.headers.get("Content-Type", "").split(";")[0]
    if "content" not in answer:
        assert reply.body == b""
        return
    assert kind in answer["content"], (kind, path)
    if kind == "application/json":
        validator(described, answer["content"][kind]["schema"]).validate(reply.json)


def test_it_is_openapi(described):
    assert described["openapi"].startswith("3.1")
    for schema in described["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_path_is_served(described, server):
    for path, operations in described["paths"].items():
        for method in operations:
            for at in (path, path.removeprefix("/v1"), "/v1" + path.removeprefix("/v1")):
                reply = server.ask(method.upper(), at, {} if method == "post" else None)
                assert reply.status in (200, 400), (method, at, reply.status)
            if method == "get":
                check(described, method, path, None, server.get(path))


HI = [{"role": "user", "content": "hi"}]
CALL = [*HI, {"role": "assistant", "content": None, "tool_calls": [
    {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "a", "content": "b"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@pytest.mark.parametrize("path,body", [
    ("/tokenize", {"prompt": "a", "return_token_strs": True}), ("/tokenize", {"messages": HI}),
    ("/detokenize", {"tokens": [1, 2]}),
    ("/v1/chat/completions", {"messages": HI, "max_tokens": 2, "logprobs": True, "n": 2}),
    ("/v1/chat/completions", {"messages": CALL, "max_tokens": 2, "stream": True}),
    ("/v1/chat/completions", {"messages": HI, "tools": [TOOL], "tool_choice": "required",
                              "max_tokens": 60, "parallel_tool_calls": False}),
    ("/v1/completions", {"prompt": ["a", "b"], "max_tokens": 2, "logprobs": 1, "echo": True}),
    ("/v1/completions", {"prompt": [[1, 2], [3]], "max_tokens": 1, "stream": True}),
    ("/v1/responses", {"input": "hi", "max_output_tokens": 2}),
    ("/v1/responses", {"input": "hi", "max_output_tokens": 2, "stream": True}),
    ("/v1/messages", {"messages": HI, "max_tokens": 2}),
    ("/v1/messages", {"messages": HI, "max_tokens": 2, "stream": True}),
    ("/v1/messages/count_tokens", {"messages": HI}),
    ("/v1/chat/completions", {"messages": HI, "max_tokens": 1000000}),
    ("/v1/completions", {"prompt": "a", "model": "other"}),
    ("/v1/messages", {"messages": HI, "max_tokens": 2, "model": "other"})])
def test_requests_and_replies(described, server, path, body):
    check(described, "post", path, body, server.post(path, body))
