"""LiteLLM: its own reply sent back, streams, and its error class for a prompt beyond the context."""

import os

import litellm

terms = {"model": f"openai/{os.environ['MODEL']}", "api_base": f"{os.environ['SERVER_URL']}/v1", "api_key": "none"}
tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"enum": ["Bern", "Paris"]}}, "required": ["city"]}}}
messages = [{"role": "user", "content": "What is the weather in Bern?"}]

called = litellm.completion(**terms, messages=messages, tools=[tool], tool_choice="required", max_tokens=200)
reply = called.choices[0].message
assert reply.tool_calls, reply
messages.append(reply.model_dump())
messages += [{"role": "tool", "tool_call_id": call.id, "content": "cloudy"} for call in reply.tool_calls]
for _ in range(3):
    answer = litellm.completion(**terms, messages=messages, max_tokens=20)
    messages += [answer.choices[0].message.model_dump(), {"role": "user", "content": "And then?"}]

stream = litellm.completion(**terms, messages=messages, max_tokens=20, stream=True, stream_options={"include_usage": True})
assert litellm.stream_chunk_builder(list(stream), messages=messages).usage.completion_tokens > 0

for too_long in (
    lambda: litellm.completion(**terms, messages=[{"role": "user", "content": "word " * 20_000}]),
    lambda: litellm.text_completion(**terms, prompt="word " * 20_000),
    lambda: litellm.embedding(**terms, input=["word " * 20_000]),
):
    try:
        too_long()
        raise SystemExit("a prompt that is too long was answered")
    except litellm.ContextWindowExceededError:
        pass
