"""pydantic-ai: native output beside tools, output by a tool, and a conversation that continues with its own messages."""

import os
from typing import Literal

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

provider = OpenAIProvider(base_url=f"{os.environ['SERVER_URL']}/v1", api_key="none")
model = OpenAIChatModel(os.environ["MODEL"], provider=provider)
settings = {"max_tokens": 200, "temperature": 0}


class Weather(BaseModel):
    city: Literal["Bern", "Paris"]
    sky: Literal["clear", "cloudy"]


def weather(city: Literal["Bern", "Paris"]) -> str:
    """The weather of a city."""
    return f"{city}: cloudy"


native = Agent(model, output_type=NativeOutput(Weather), tools=[weather], model_settings=settings, retries=3)
assert isinstance(native.run_sync("What is the weather in Bern?").output, Weather)

by_tool = Agent(model, output_type=ToolOutput(Weather), model_settings=settings, retries=3)
assert isinstance(by_tool.run_sync("What is the weather in Paris?").output, Weather)

plain = Agent(model, model_settings={"max_tokens": 20})
first = plain.run_sync("Name an animal.")
assert plain.run_sync("Another.", message_history=first.all_messages()).output
