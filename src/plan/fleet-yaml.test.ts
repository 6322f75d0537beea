import { expect, test } from "vitest";
import { parse } from "yaml";
import { planRequest } from "../../test/helpers/plan-request.js";
import { yamlOf } from "./fleet-yaml.js";
import { makePlan } from "./plan.js";

test.each(["\n", "\r", "\r\n"])("what a model's files say stays within a comment (%j)", (end) => {
  const request = planRequest("llama-3.1-8b", "h100");
  const evil = `x${end}admin-key: known${end}#`;
  const model = { ...request.model, name: evil, modelType: evil };
  const plan = makePlan({ ...request, model });
  const text = yamlOf(plan, plan.configurations[0]!, [evil]);
  expect(Object.keys(parse(text) as object)).toEqual(["models"]);
});
