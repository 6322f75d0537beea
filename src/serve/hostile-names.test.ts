/**
 * Members called __proto__: an own property in JSON, but the prototype in an assignment. They are kept or refused,
 * never
 * lost.
 */
import { describe, expect, it } from "vitest";
import { ask, writing } from "../../test/helpers/ask.js";
import { toolTemplate } from "../../test/helpers/chat-templates.js";
import { grammarOfSchema } from "../text/grammar/json-schema.js";

const NAME = "__proto__";
/** A text, since a literal's member of this name would set the prototype. */
const SCHEMA = `{"type":"object","properties":{"${NAME}":{"const":"kept"}},"required":["${NAME}"],"additionalProperties":false}`;
const ARGUMENTS = `{"${NAME}":{"type":"kept"},"city":"Paris"}`;
const PRINTED = ARGUMENTS.replaceAll(/([:,])/g, "$1 ");
const NAMED = String.raw`\"${NAME}\"`;

const post = (path: string, body: string, answer = "ok") =>
  ask(path, body, writing(answer), { chatTemplate: toolTemplate });

const user = `{"role":"user","content":"hi"}`;
const chat = (fields: string) => `{"messages":[${user}],"max_tokens":200,${fields}}`;

describe("as a property of a schema", () => {
  it.each([
    ["by itself", SCHEMA],
    ["in allOf", `{"allOf":[${SCHEMA},{"properties":{"${NAME}":{"type":"string"}}}]}`],
    ["under $defs", `{"$ref":"#/$defs/${NAME}","$defs":{"${NAME}":${SCHEMA}}}`],
  ])("is asked for: %s", (_, schema) => {
    const grammar = grammarOfSchema(JSON.parse(schema), "json");
    expect(grammar).toContain(NAMED);
    expect(grammar).toContain("kept");
  });

  it.each([
    ["dependentRequired", `{"dependentRequired":{"${NAME}":["other"]},"type":"object"}`],
    ["required alone", `{"type":"object","required":["${NAME}"]}`],
    ["an enumerated object", `{"enum":[{"${NAME}":1}]}`],
  ])("is written: %s", (_, schema) => {
    expect(grammarOfSchema(JSON.parse(schema), "json")).toContain(NAME);
  });

  it("holds an answer, a call's arguments and what templates show", async () => {
    const format = `"response_format":{"type":"json_schema","json_schema":{"name":"a","strict":true,"schema":${SCHEMA}}}`;
    const held = await post("/v1/chat/completions", chat(format), `{"${NAME}":"kept"}`);
    expect([held.status, held.grammar]).toEqual([200, expect.stringContaining(NAMED)]);
    const tools = `"tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":${SCHEMA}}}]`;
    const called = await post("/v1/chat/completions", chat(`${tools},"tool_choice":"required"`), "");
    expect(called.grammar).toContain(NAMED);
    expect(called.prompt).toContain(`"properties": {"${NAME}": {"const": "kept"}}`);
    const named = `"tools":[{"name":"f","strict":true,"input_schema":${SCHEMA}}],"tool_choice":{"type":"any"}`;
    expect((await post("/v1/messages", chat(named), "")).grammar).toContain(NAMED);
    const flat = `"tools":[{"type":"function","name":"f","strict":true,"parameters":${SCHEMA}}],"tool_choice":"required"`;
    expect((await post("/v1/responses", `{"input":"hi",${flat}}`, "")).grammar).toContain(NAMED);
  });
});

describe("in a call's arguments", () => {
  const CALL = `<tool_call>\n{"name": "f", "arguments": ${ARGUMENTS}}\n</tool_call>`;
  const tools = `"tools":[{"name":"f","input_schema":{"type":"object"}}]`;

  it("is shown to the template when it is sent back", async () => {
    const call = `{"id":"c","type":"function","function":{"name":"f","arguments":${JSON.stringify(ARGUMENTS)}}}`;
    const turns = `${user},{"role":"assistant","content":null,"tool_calls":[${call}]},{"role":"tool","tool_call_id":"c","content":"x"}`;
    const openai = await post("/v1/chat/completions", `{"messages":[${turns}],"max_tokens":5}`);
    expect(openai.prompt).toContain(PRINTED);
    const block = `{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":${ARGUMENTS}}]}`;
    const result = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"x"}]}`;
    const anthropic = await post("/v1/messages", `{"messages":[${user},${block},${result}],"max_tokens":5,${tools}}`);
    expect(anthropic.prompt).toContain(PRINTED);
  });

  it("is in the answer", async () => {
    const openai = `"tools":[{"type":"function","function":{"name":"f"}}]`;
    const called = await post("/v1/chat/completions", chat(openai), CALL);
    expect(called.body.choices[0].message.tool_calls[0].function.arguments).toBe(ARGUMENTS);
    const [block] = (await post("/v1/messages", chat(tools), CALL)).body.content;
    expect(JSON.stringify(block)).toContain(`"input":${ARGUMENTS}`);
  });
});

it("in metadata is echoed", async () => {
  const metadata = `{"${NAME}":"kept","a":"b"}`;
  const answer = await post("/v1/responses", `{"input":"hi","metadata":${metadata}}`);
  expect(JSON.stringify(answer.body)).toContain(`"metadata":${metadata}`);
});

it.each([
  ["/v1/chat/completions", `{"type":"function","function":{"name":"f","${NAME}":{}}}`, "tools[0].function.__proto__"],
  ["/v1/messages", `{"name":"f","input_schema":{},"${NAME}":{}}`, "tools[0].__proto__"],
  ["/v1/responses", `{"type":"function","name":"f","${NAME}":{}}`, "tools[0].__proto__"],
])("as an unknown field of a tool is refused like every other: %s", async (path, tool, param) => {
  const body = path === "/v1/responses" ? `{"input":"hi","tools":[${tool}]}` : chat(`"tools":[${tool}]`);
  const answer = await post(path, body);
  const message = expect.stringContaining(`expected only fields this endpoint knows, got "${param}"`);
  expect([answer.status, answer.body.error]).toEqual([400, expect.objectContaining({ message })]);
});
