"""LangChain: structured output, forced tools with their results sent back, a stream with usage."""

import os
from typing import Literal

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

model = ChatOpenAI(base_url=f"{os.environ['SERVER_URL']}/v1", api_key="none", model=os.environ["MODEL"], temperature=0, max_tokens=200)


class Weather(BaseModel):
    """The weather of a city."""

    city: Literal["Bern", "Paris"]
    sky: Literal["clear", "cloudy"]


for method in ("json_schema", "function_calling"):
    answer = model.with_structured_output(Weather, method=method).invoke("What is the weather in Bern?")
    assert isinstance(answer, Weather), (method, answer)

tools = model.bind_tools([Weather], tool_choice="any")
messages = [HumanMessage("What is the weather in Bern?")]
call = tools.invoke(messages)
assert call.tool_calls, call
messages += [call, *(ToolMessage("cloudy", tool_call_id=each["id"]) for each in call.tool_calls)]
assert model.invoke(messages).content is not None

last = None
for chunk in model.stream("Name an animal.", stream_usage=True):
    last = chunk if last is None else last + chunk
assert last.usage_metadata["output_tokens"] > 0
