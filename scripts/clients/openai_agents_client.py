"""OpenAI's agents: a forced tool, then an answer in a form, with tools; over chat completions and over responses."""

import asyncio
import os
from typing import Literal

from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
from pydantic import BaseModel

set_tracing_disabled(True)
client = AsyncOpenAI(base_url=f"{os.environ['SERVER_URL']}/v1", api_key="none")
called = []


class Weather(BaseModel):
    city: Literal["Bern", "Paris"]
    sky: Literal["clear", "cloudy"]


@function_tool
def weather(city: Literal["Bern", "Paris"]) -> str:
    """The weather of a city."""
    called.append(city)
    return f"{city}: cloudy"


async def ask(model) -> None:
    settings = ModelSettings(tool_choice="required", parallel_tool_calls=False, max_tokens=400)
    agent = Agent(name="a", instructions="Be brief.", model=model, tools=[weather], output_type=Weather, model_settings=settings)
    # After the first call the agent lets the model choose: it answers in the form, or calls once more.
    result = await Runner.run(agent, "What is the weather in Bern?", max_turns=8)
    assert called, "the tool was not called"
    assert isinstance(result.final_output, Weather), result.final_output


async def chat() -> None:
    model = OpenAIResponsesModel(model=os.environ["MODEL"], openai_client=client)
    agent = Agent(name="b", model=model, model_settings=ModelSettings(max_tokens=20))
    first = await Runner.run(agent, "Name an animal.")
    second = await Runner.run(agent, "Another.", previous_response_id=first.last_response_id)
    assert second.last_response_id != first.last_response_id


async def main() -> None:
    for model in (OpenAIChatCompletionsModel, OpenAIResponsesModel):
        called.clear()
        await ask(model(model=os.environ["MODEL"], openai_client=client))
    await chat()


# The client's connections belong to one event loop.
asyncio.run(main())
