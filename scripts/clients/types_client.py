"""Checks whole and streamed answers against the types of the official Python clients, which define the required fields."""
import json
import os
import typing

import httpx
from anthropic.types import Message, MessageTokensCount, ModelInfo, RawMessageStreamEvent
from openai.types import CreateEmbeddingResponse, Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseItemList, ResponseStreamEvent
from pydantic import TypeAdapter

url, model = os.environ["SERVER_URL"], os.environ["MODEL"]
client = httpx.Client(base_url=url, timeout=120)


def alternatives(union):
    for member in typing.get_args(union):
        if hasattr(member, "model_fields"):
            yield member
        else:
            yield from alternatives(member)


def event_type(union, event):
    """Reads a union by `type`, like the client: otherwise an error would name every alternative."""
    for member in alternatives(union):
        if event["type"] in typing.get_args(member.model_fields["type"].annotation):
            return member
    raise SystemExit(f"expected an event of the client's types, got {event['type']}")


def check(expected, value):
    TypeAdapter(expected).validate_python(value)
    return value


def post(path, body):
    answer = client.post(path, json={"model": model, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def events(path, body):
    with client.stream("POST", path, json={"model": model, **body, "stream": True}) as answer:
        lines = [line[6:] for line in answer.iter_lines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


asked = [{"role": "user", "content": "hi"}]
schema = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 4}},
    "required": ["city"],
    "additionalProperties": False,
}
function = {"name": "w", "parameters": schema}
form = {"type": "json_schema", "name": "x", "schema": schema}

forced = {"tools": [{"type": "function", "function": function}], "tool_choice": "required", "parallel_tool_calls": False}
for fields in ({}, {"logprobs": True, "top_logprobs": 2}, {"n": 2}, forced):
    body = {"messages": asked, "max_tokens": 40, **fields}
    check(ChatCompletion, post("/v1/chat/completions", body))
    for chunk in events("/v1/chat/completions", {**body, "stream_options": {"include_usage": True}}):
        check(ChatCompletionChunk, chunk)

forced = {"tools": [{"type": "function", **function}], "tool_choice": "required", "parallel_tool_calls": False}
scored = {"include": ["message.output_text.logprobs"]}
for fields in ({}, scored, forced, {"text": {"format": form}}):
    body = {"input": "hi", "max_output_tokens": 40, **fields}
    response = check(Response, post("/v1/responses", body))
    for number, event in enumerate(events("/v1/responses", body)):
        check(event_type(ResponseStreamEvent, event), event)
        assert event["sequence_number"] == number, event
check(Response, client.get(f"/v1/responses/{response['id']}").json())
check(ResponseItemList, client.get(f"/v1/responses/{response['id']}/input_items").json())

forced = {
    "tools": [{"name": "w", "input_schema": schema}],
    "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
}
for fields in ({}, {"stop_sequences": ["H"]}, {"output_config": {"format": {"type": "json_schema", "schema": schema}}}, forced):
    body = {"messages": asked, "max_tokens": 40, **fields}
    check(Message, post("/v1/messages", body))
    for event in events("/v1/messages", body):
        if event["type"] != "ping":
            check(event_type(RawMessageStreamEvent, event), event)
check(MessageTokensCount, post("/v1/messages/count_tokens", {"messages": asked}))

check(CreateEmbeddingResponse, post("/v1/embeddings", {"input": ["a", "b"]}))
for listed in client.get("/v1/models").json()["data"]:
    check(Model, listed)
    check(ModelInfo, listed)
print("ok")
