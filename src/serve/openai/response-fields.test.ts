/** Fields of /v1/responses that chats share, and fields of its answers. */
import { describe, expect, it } from "vitest";
import { ask, writing } from "../../../test/helpers/ask.js";
import { startFakeServer } from "../../../test/helpers/fake-server.js";

describe("responses", () => {
  it("accepts messages and instructions", async () => {
    const input = [{ role: "user", content: [{ type: "input_text", text: "hey" }] }];
    const { body, fake } = await ask("/v1/responses", { input, instructions: "short", max_output_tokens: 3 });
    const text = fake.options.tokenizer.decode(fake.engine.submitted[0]!.promptIds);
    expect(text).toBe("system\nshort\nuser\nhey\nassistant\n");
    expect(body).toMatchObject({
      object: "response",
      status: "incomplete",
      incomplete_details: { reason: "max_output_tokens" },
    });
    expect(body.usage.output_tokens).toBe(3);
  });

  it.each([0, -1, 1.5])("refuses a max_output_tokens of %j", async (max_output_tokens) => {
    for (const truncation of ["disabled", "auto"]) {
      const { status, body } = await ask("/v1/responses", { input: "hi", max_output_tokens, truncation });
      expect(status).toBe(400);
      expect(body.error).toMatchObject({ code: "invalid_parameter", param: "max_output_tokens" });
      expect(body.error.message).toContain(`expected an integer in [1, 2147483647], got ${max_output_tokens}`);
    }
  });

  it("takes chat's sampling fields, and repeats those that OpenAI's responses have", async () => {
    const penalties = { presence_penalty: 0.5, frequency_penalty: 1 };
    const sampling = { ...penalties, seed: 7, top_k: 3, min_p: 0.25, repetition_penalty: 1.5, stop: ["zz"] };
    const others = { chat_template_kwargs: {}, stream_options: { include_usage: true } };
    const { body, status, fake } = await ask("/v1/responses", {
      input: "hi",
      max_output_tokens: 3,
      ...sampling,
      ...others,
    });
    expect(status).toBe(200);
    expect(fake.engine.submitted[0]!.sampling).toMatchObject({
      presencePenalty: 0.5,
      frequencyPenalty: 1,
      repetitionPenalty: 1.5,
      seed: 7n,
      topK: 3,
      minP: 0.25,
    });
    expect(body).toMatchObject(penalties);
  });

  it("takes vLLM's fields for ends, tokens and forms", async () => {
    const fields = { ignore_eos: false, stop_token_ids: [97], logit_bias: { 98: 5 }, skip_special_tokens: false };
    const { fake } = await ask("/v1/responses", { input: "hi", max_output_tokens: 3, ...fields });
    const { stopTokenIds, logitBias } = fake.engine.submitted[0]!.sampling;
    expect([stopTokenIds.includes(97), logitBias]).toEqual([true, [[98, 5]]]);
    const form = { structured_outputs: { choice: ["aye", "no"] } };
    expect((await ask("/v1/responses", { input: "hi", ...form })).grammar).toContain('"a" "ye"');
    const both = { ...form, text: { format: { type: "json_object" } } };
    const { body } = await ask("/v1/responses", { input: "hi", ...both });
    expect(body.error).toMatchObject({ code: "invalid_parameter", param: "structured_outputs" });
    const { body: refused } = await ask("/v1/responses", { input: "hi", enable_response_messages: true });
    expect(refused.error).toMatchObject({ code: "unsupported_field", param: "enable_response_messages" });
  });

  it("have the fields that clients' types ask for, in the answer and in each event that has one", async () => {
    const fields = ["max_tool_calls", "service_tier", "safety_identifier", "prompt_cache_key", "completed_at"];
    const empty = Object.fromEntries(fields.map((name) => [name, null]));
    const written = { ...empty, presence_penalty: 0, frequency_penalty: 0 };
    const { body } = await ask("/v1/responses", { input: "hi", max_output_tokens: 3 });
    expect(body).toMatchObject({ ...written, status: "incomplete" });
    const { server } = await startFakeServer(writing("ok"));
    const request = { input: "hi", stream: true };
    const stream = await fetch(`${server.url}/v1/responses`, { method: "POST", body: JSON.stringify(request) });
    const events = (await stream.text()).match(/(?<=data: ).*"response":.*/g)!.map((data) => JSON.parse(data).response);
    expect(events).toHaveLength(3);
    for (const event of events.slice(0, 2)) expect(event).toMatchObject(written);
    const { completed_at, created_at, id } = events[2];
    expect(completed_at).toBeGreaterThanOrEqual(created_at);
    expect(events[2]).toMatchObject({ ...written, completed_at });
    expect(await (await fetch(`${server.url}/v1/responses/${id}`)).json()).toEqual(events[2]);
    await server.close();
  });
});
