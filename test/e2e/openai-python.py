"""The official Python `openai` package, unchanged, against a running server: python openai-python.py BASE_URL"""
import sys

from openai import APIStatusError, BadRequestError, OpenAI

client = OpenAI(base_url=sys.argv[1] + "/v1", api_key="unused")
model = client.models.list().data[0].id

chat = client.chat.completions.create(
    model=model,
    messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello!"}],
    max_tokens=12,
    temperature=0,
    logprobs=True,
    top_logprobs=3,
)
assert chat.choices[0].message.role == "assistant" and isinstance(chat.choices[0].message.content, str)
assert chat.usage.completion_tokens <= 12
assert len(chat.choices[0].logprobs.content[0].top_logprobs) == 3

stream = client.chat.completions.create(
    model=model,
    messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello!"}],
    max_tokens=12,
    temperature=0,
    stream=True,
    stream_options={"include_usage": True},
)
text, usage = "", None
for chunk in stream:
    usage = chunk.usage or usage
    if chunk.choices:
        text += chunk.choices[0].delta.content or ""
assert text == chat.choices[0].message.content, (text, chat.choices[0].message.content)
assert usage.completion_tokens == chat.usage.completion_tokens

completion = client.completions.create(model=model, prompt=["One", "Two"], max_tokens=5, n=2, logprobs=2, seed=3)
assert [choice.index for choice in completion.choices] == [0, 1, 2, 3]
assert len(completion.choices[0].logprobs.tokens) == len(completion.choices[0].logprobs.token_logprobs)

response = client.responses.create(model=model, input="Hello!", max_output_tokens=16)
assert isinstance(response.output_text, str)

try:
    client.completions.create(model=model, prompt="x", max_tokens=5, temperature=-1)
    raise SystemExit("expected an error for temperature -1")
except BadRequestError as error:
    assert error.code == "invalid_parameter" and error.param == "temperature", error.body
try:
    client.models.retrieve("no-such-model")
    raise SystemExit("expected an error for an unknown model")
except APIStatusError as error:
    assert error.status_code == 404
print("ok")
