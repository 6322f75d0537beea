/** The semantic cache of responses: complete and streamed, for the official client, and within conversations. */
import OpenAI from "openai";
import { afterEach, expect, test } from "vitest";
import { replayed } from "../../../test/helpers/replayed-response.js";
import { earn, endSemanticFleets, startSemanticFleet } from "../../../test/helpers/semantic-fleet.js";

afterEach(endSemanticFleets);

test("hits are responses of their own, whole and streamed, which later requests continue", async () => {
  const running = await startSemanticFleet({
    keys: "mode: serve, audit-rate: 0.01",
    translatesResponses: true,
  });
  const { fleet, until, standIns } = running;
  await earn(running, 300);
  const client = new OpenAI({ apiKey: "ka", baseURL: `${fleet.url}/v1`, maxRetries: 0 });
  const { responses } = client;
  const ask = (input: string, fields: object = {}) => responses.create({ model: "m", input, ...fields }).withResponse();
  const kept = (await ask("What is the root of 9?")).data;
  await until(({ entries }) => entries >= 301);
  /** One in a hundred hits is an audit. */
  const askForHit = async (input: string, fields: object = {}) => {
    const asked = await ask(input, fields);
    return asked.response.headers.get("x-millrace-cache") === null ? await ask(input, fields) : asked;
  };
  const { data: hit, response } = await askForHit("Can you tell me what the root of 9 is?");
  expect(response.headers.get("x-millrace-cache-kind")).toBe("semantic");
  expect([hit.output_text, hit.output, hit.status]).toEqual(["It is 9.", kept.output, "completed"]);
  expect(hit.id).not.toBe(kept.id);

  // Another system prompt, tool, format or sampling has another namespace, and so does a conversation.
  const tool = { type: "function", name: "f", parameters: { type: "object", properties: {} }, strict: false };
  for (const fields of [
    { instructions: "Be brief." },
    { tools: [tool] },
    { text: { format: { type: "json_object" } } },
    { temperature: 0.5 },
    { max_output_tokens: 9 },
    { previous_response_id: kept.id },
  ]) {
    const other = await ask("Tell me the root of 9.", fields);
    expect(other.response.headers.get("x-millrace-cache")).toBeNull();
  }
  const stranger = client.withOptions({ apiKey: "kb" }).responses;
  const theirs = await stranger.create({ model: "m", input: "Tell me the root of 9." }).withResponse();
  expect(theirs.response.headers.get("x-millrace-cache")).toBeNull();

  // Each hit is stored, and its items survive the deletion of the other.
  const next = await responses.create({ model: "m", input: "And of 16?", previous_response_id: hit.id });
  expect(next.previous_response_id).toBe(hit.id);
  const [system] = standIns[0].received.slice(-1);
  expect((system!.body.messages as { content: string }[]).map(({ content }) => content)).toEqual([
    "Can you tell me what the root of 9 is?",
    "It is 9.",
    "And of 16?",
  ]);
  expect(await responses.retrieve(hit.id)).toMatchObject({ id: hit.id, output: kept.output });
  const item = { type: "item_reference" as const, id: hit.output[0]!.id! };
  await responses.delete(hit.id);
  const asked = { role: "user" as const, content: "And of 25?" };
  expect((await responses.create({ model: "m", input: [item, asked] })).status).toBe("completed");

  // Streams have their own namespace, and their hits are streams too.
  const stream = async (input: string) =>
    await fetch(`${fleet.url}/v1/responses`, {
      method: "POST",
      headers: { authorization: "Bearer ka" },
      body: JSON.stringify({ model: "m", input, stream: true }),
    });
  const { entries } = await running.status();
  const first = replayed(await (await stream("What is the root of 36?")).text()).response!;
  await until((now) => now.entries > entries);
  const question = "Can you tell me what the root of 36 is?";
  let again = await stream(question);
  if (again.headers.get("x-millrace-cache") === null) again = await stream(question);
  expect(again.headers.get("x-millrace-cache")).toBe("hit");
  const streamed = replayed(await again.text()).response!;
  expect([streamed.output, streamed.store]).toEqual([first.output, true]);
  expect(streamed.id).not.toBe(first.id);
  expect((await responses.retrieve(streamed.id as string)).output_text).toBe("It is 36.");
  const unkept = await askForHit("Could you tell me what the root of 9 is?", { store: false });
  expect(unkept.response.headers.get("x-millrace-cache")).toBe("hit");
  await expect(responses.retrieve(unkept.data.id)).rejects.toThrow(OpenAI.NotFoundError);
}, 180_000);
