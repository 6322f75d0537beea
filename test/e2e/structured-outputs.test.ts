/**
 * Answers held to a form, over HTTP with a real engine: the bundled model, which knows nothing of JSON, has to write
 * it.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI, { BadRequestError } from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { toolTemplate } from "../helpers/chat-templates.js";
import { startTestServer, type TestServer } from "../helpers/server.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-structured-"));
let server: TestServer;
let client: OpenAI;
let anthropic: Anthropic;
beforeAll(async () => {
  const template = join(folder, "tools.jinja");
  writeFileSync(template, toolTemplate.source);
  server = await startTestServer(["--seed", "1", "--chat-template", template]);
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
  anthropic = new Anthropic({ baseURL: server.url, apiKey: "none", maxRetries: 0 });
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

const schema = {
  type: "object",
  properties: { colour: { enum: ["red", "blue"] }, size: { type: "integer", minimum: 3, maximum: 40 } },
  required: ["colour", "size"],
  additionalProperties: false,
};
const format = { type: "json_schema", name: "shirt", schema, strict: true } as const;

function expectShirt(text: string | null | undefined): void {
  const { colour, size, ...rest } = JSON.parse(text ?? "") as { colour: string; size: number };
  expect(["red", "blue"]).toContain(colour);
  expect(Number.isInteger(size) && size >= 3 && size <= 40).toBe(true);
  expect(rest).toEqual({});
}

describe("responses", () => {
  const asked = { model: "mill-base", input: "A shirt?", text: { format } };

  test("follow text.format", async () => {
    const answer = await client.responses.create(asked);
    expectShirt(answer.output_text);
    expect(answer).toMatchObject({ status: "completed", text: { format } });
  });

  test("follow it in streams", async () => {
    let streamed = "";
    const stream = client.responses.stream(asked);
    stream.on("response.output_text.delta", ({ delta }) => {
      streamed += delta;
    });
    const { output } = await stream.finalResponse();
    expectShirt(streamed);
    expect(output).toMatchObject([{ type: "message", content: [{ text: streamed }] }]);
  });

  test("are any object on request", async () => {
    const text = { format: { type: "json_object" } } as const;
    const answer = await client.responses.create({ ...asked, text, max_output_tokens: 200 });
    expect(answer.output_text).toMatch(/^\{/);
    if (answer.status === "completed") expect(JSON.parse(answer.output_text)).toBeTypeOf("object");
  });

  test("with an unsupported schema are refused with the field's name", async () => {
    const bad = { ...format, schema: { type: "string", pattern: "(?<=a)b" } };
    const refused = client.responses.create({ ...asked, text: { format: bad } });
    await expect(refused).rejects.toThrow(BadRequestError);
    await expect(refused).rejects.toMatchObject({ code: "invalid_parameter", param: "text.format.schema" });
  });
});

test("chats follow response_format", async () => {
  const answer = await client.chat.completions.create({
    model: "mill-base",
    messages: [{ role: "user", content: "A shirt?" }],
    response_format: { type: "json_schema", json_schema: { name: "shirt", schema } },
  });
  expectShirt(answer.choices[0]?.message.content);
});

test("the answer's headers list the unenforced keywords of a schema, on every endpoint and for streams", async () => {
  const tags = { type: "array", items: { type: "string", maxLength: 3 }, uniqueItems: true, maxItems: 2 };
  const messages = [{ role: "user", content: "Tags?" }];
  const doors: Readonly<Record<string, (form: object) => object>> = {
    "/v1/chat/completions": (schema) => ({
      messages,
      max_tokens: 40,
      response_format: { type: "json_schema", json_schema: { name: "tags", schema } },
    }),
    "/v1/responses": (schema) => ({
      input: "Tags?",
      max_output_tokens: 40,
      text: { format: { type: "json_schema", name: "tags", schema } },
    }),
    "/v1/messages": (schema) => ({
      messages,
      max_tokens: 40,
      output_config: { format: { type: "json_schema", schema } },
    }),
  };
  const named = async (path: string, stream: boolean, form: object) => {
    const answer = await fetch(server.url + path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "mill-base", stream, ...doors[path]!(form) }),
    });
    expect(answer.status, await answer.clone().text()).toBe(200);
    await answer.text();
    return answer.headers.get("x-millrace-unenforced");
  };
  for (const path of Object.keys(doors)) {
    for (const stream of [false, true]) {
      expect(await named(path, stream, tags), path).toBe("uniqueItems");
      expect(await named(path, stream, { ...tags, items: { enum: ["a", "b"] } }), path).toBeNull();
    }
  }
});

test("chats with tools are a call or follow response_format", async () => {
  const tools = [{ type: "function" as const, function: { name: "coat", parameters: schema } }];
  const response_format = { type: "json_schema" as const, json_schema: { name: "shirt", schema, strict: true } };
  const messages = [{ role: "user" as const, content: "A shirt?" }];
  const params = { model: "mill-base", messages, tools, response_format, temperature: 1 };
  for (const seed of [1, 2, 3]) {
    const answer = await client.chat.completions.create({ ...params, seed });
    const { content, tool_calls: calls = [] } = answer.choices[0]!.message;
    expect(content === null).toBe(calls.length > 0);
    for (const call of calls) expectShirt(call.type === "function" ? call.function.arguments : undefined);
    if (content !== null) expectShirt(content);
    const streamed = await client.chat.completions.stream({ ...params, seed }).finalChatCompletion();
    expect(streamed.choices[0]?.message.content).toBe(content);
  }
});

describe("forced calls", () => {
  const messages = [{ role: "user" as const, content: "A shirt?" }];
  const model = "mill-base";

  test.each([false, true])("of a chat have valid arguments (strict: %s)", async (strict) => {
    const functions = ["shirt", "coat"].map((name) => ({ name, parameters: schema, strict }));
    const tools = functions.map((each) => ({ type: "function" as const, function: each }));
    const asked = { model, messages, tools, max_tokens: 200 };
    for (const tool_choice of ["required", { type: "function" as const, function: { name: "coat" } }] as const) {
      for (const parallel_tool_calls of [false, true]) {
        const params = { ...asked, tool_choice, parallel_tool_calls };
        const answer = await client.chat.completions.create(params);
        const { tool_calls: calls = [], content } = answer.choices[0]!.message;
        expect(content).toBeNull();
        expect(calls.length).toBeGreaterThan(0);
        const isCut = answer.choices[0]!.finish_reason === "length";
        for (const call of isCut ? calls.slice(0, -1) : calls) {
          if (call.type !== "function") throw new Error("expected a function");
          expect(tool_choice === "required" ? ["shirt", "coat"] : ["coat"]).toContain(call.function.name);
          expectShirt(call.function.arguments);
        }
      }
    }
  });

  test("of responses have valid arguments", async () => {
    const tools = [{ type: "function" as const, name: "shirt", parameters: schema, strict: true }];
    const tool_choice = { type: "function" as const, name: "shirt" };
    const answer = await client.responses.create({ model, input: "A shirt?", tools, tool_choice });
    const [call] = answer.output;
    expectShirt(call?.type === "function_call" ? call.arguments : undefined);
  });

  test("of Anthropic's messages have valid input", async () => {
    const tools = [{ name: "shirt", input_schema: { ...schema, type: "object" as const } }];
    for (const tool_choice of [{ type: "any" as const }, { type: "tool" as const, name: "shirt" }]) {
      const only = { ...tool_choice, disable_parallel_tool_use: true };
      const answer = await anthropic.messages.create({ model, messages, tools, tool_choice: only, max_tokens: 200 });
      expect(answer.stop_reason).toBe("tool_use");
      const [block] = answer.content;
      expectShirt(block?.type === "tool_use" ? JSON.stringify(block.input) : undefined);
    }
  });
});
