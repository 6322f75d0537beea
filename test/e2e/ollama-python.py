"""The Python `ollama` package, unchanged, against a running server: python ollama-python.py BASE_URL MODEL"""
import asyncio
import json
import sys

import ollama

url, model = sys.argv[1:]
client = ollama.Client(host=url)
messages = [{"role": "user", "content": "What is 12 plus 7?"}]
options = {"temperature": 0}
schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
# Every option that the package knows, at a value that this server takes.
every_option = ollama.Options(
    numa=False, num_ctx=2048, num_batch=8, num_gpu=0, main_gpu=0, low_vram=False, f16_kv=True, logits_all=False,
    vocab_only=False, use_mmap=True, use_mlock=False, embedding_only=False, num_thread=2, num_keep=4, seed=3,
    num_predict=5, top_k=10, top_p=0.9, tfs_z=1, typical_p=1, repeat_last_n=64, temperature=0, repeat_penalty=1.0,
    presence_penalty=0, frequency_penalty=0, mirostat=0, mirostat_tau=5, mirostat_eta=0.1, penalize_newline=True,
    stop=["zzz"],
)
assert {name for name, value in every_option if value is None} == set(), every_option


def refused(status, call):
    """The message of the refusal that `call` ends in."""
    try:
        call()
    except ollama.ResponseError as error:
        assert error.status_code in (status if isinstance(status, tuple) else (status,)), error
        return error.error
    raise SystemExit(f"expected a refusal with {status}, got an answer")


# Models.
listed = {entry.model: entry for entry in client.list().models}
assert listed[f"{model}:latest"].details.parameter_size == "6.2M", listed
assert f"{model}:latest" in [entry.model for entry in client.ps().models]
shown = client.show(f"{model}:latest")
assert "completion" in shown.capabilities and shown.modelinfo["llama.context_length"] > 0, shown
assert shown.details.parameter_size == "6.2M", shown.details
assert client.pull(model).status == "success"
assert [part.status for part in client.pull(model, stream=True)][-1] == "success"
assert "got \"absent\"" in refused(404, lambda: client.pull("absent"))
for change in (
    lambda: client.push(model),
    lambda: client.create("new", from_=model),
    lambda: client.create_blob(__file__),
    lambda: client.copy(model, "new"),
):
    assert "models are not made here" in refused(404, change)
# Whether or not the server has an administrator.
refused((401, 404), lambda: client.delete(model))
refused(404, lambda: client.show("absent"))
refused(404, lambda: client.chat("absent", messages))

# Chats.
chat = client.chat(model, messages, options=options)
assert chat.done and chat.done_reason == "stop" and chat.message.role == "assistant" and chat.message.content, chat
assert chat.eval_count > 0 and chat.prompt_eval_count > 0 and chat.total_duration > 0, chat
# Programs divide by these.
assert chat.eval_duration > 0 and chat.prompt_eval_duration > 0, chat
parts = list(client.chat(f"{model}:latest", messages, options=options, stream=True, keep_alive="5m"))
assert "".join(part.message.content for part in parts) == chat.message.content
assert parts[-1].done and parts[-1].eval_count == chat.eval_count and parts[-1].eval_duration > 0, parts[-1]
assert client.chat(model, messages, options=every_option, keep_alive=-1, think=False).eval_count == 5
assert isinstance(json.loads(client.chat(model, messages, options=options, format=schema).message.content)["sum"], int)
call = {"function": {"name": "add", "arguments": {"a": 12, "b": 7}}}
results = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_name": "add", "content": "19"}]
assert client.chat(model, messages + results, options=options).done
assert client.chat(model, [*messages, chat.message, ollama.Message(role="user", content="Thanks.")]).done
assert client.chat(model).done_reason == "load" and client.chat(model, keep_alive=0).done_reason == "unload"


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


assert "tools" in refused(400, lambda: client.chat(model, messages, tools=[add]))
image = [{**messages[0], "images": [b"png"]}]
assert "expected no images" in refused(400, lambda: client.chat(model, image))
assert "top_p" in refused(400, lambda: client.chat(model, messages, options={"top_p": 2}))
assert client.chat(model, messages, options={**options, "mirostat": 2, "colour": 1}).done

# Prompts.
answer = client.generate(model, messages[0]["content"], options=options)
assert answer.response == chat.message.content and answer.done_reason == "stop", answer
empty = {"suffix": "", "system": "", "template": "", "context": [], "format": "", "raw": False, "images": []}
assert client.generate(model, "Hi", options=every_option, keep_alive=5.0, **empty).eval_count == 5
stream = client.generate(model, messages[0]["content"], options=options, stream=True)
assert "".join(part.response for part in stream) == answer.response
raw = client.generate(model, "Once upon a", raw=True, options={"num_predict": 4, "temperature": 0})
assert raw.done_reason == "length" and raw.eval_count == 4, raw
assert "filling in" in refused(400, lambda: client.generate(model, "def f(", suffix="return"))
assert client.generate(model).done_reason == "load" and client.generate(model, keep_alive=0).done_reason == "unload"

# Vectors.
vectors = client.embed(model, ["a fox", "a boat"], truncate=True, options={"num_ctx": 64}, keep_alive="1m").embeddings
assert len(vectors) == 2 and abs(sum(x * x for x in vectors[0]) - 1) < 1e-4
assert len(client.embed(model, "a fox", dimensions=32).embeddings[0]) == 32
assert client.embed(model, []).embeddings == []
assert client.embeddings(model, "a fox").embedding == vectors[0]


async def asynchronous():
    other = ollama.AsyncClient(host=url)
    text = ""
    async for part in await other.chat(model, messages, options=options, stream=True):
        text += part.message.content
    assert text == chat.message.content


asyncio.run(asynchronous())
print("ok")
