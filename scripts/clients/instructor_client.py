"""instructor: a form by a tool, and by a schema."""

import os
from typing import Literal

import instructor
from openai import OpenAI
from pydantic import BaseModel


class Weather(BaseModel):
    city: Literal["Bern", "Paris"]
    sky: Literal["clear", "cloudy"]


client = OpenAI(base_url=f"{os.environ['SERVER_URL']}/v1", api_key="none")
# Its third mode, JSON, asks for any object, whose fields the model must guess.
for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
    answer = instructor.from_openai(client, mode=mode).create(
        model=os.environ["MODEL"],
        response_model=Weather,
        messages=[{"role": "user", "content": "What is the weather in Bern?"}],
        max_tokens=200,
        max_retries=1,
    )
    assert isinstance(answer, Weather), (mode, answer)
