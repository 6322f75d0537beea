import { expect, test } from "vitest";
import { chat } from "../../../test/helpers/cached-fleet.js";
import { type KeptText, privatePatterns, runCheckJob } from "./check-job.js";

async function keptOf(body: object): Promise<KeptText | undefined> {
  const bytesOf = (value: object): Uint8Array<ArrayBuffer> => Uint8Array.from(Buffer.from(JSON.stringify(value)));
  const [request, answer] = [bytesOf({ messages: [{ role: "user", content: "a" }], ...body }), bytesOf(chat("ok"))];
  const path = "/v1/chat/completions";
  const job = { kind: "sample", path, request, answer, isEventStream: false, keepsText: true } as const;
  const checked = await runCheckJob(job, privatePatterns([]));
  return checked.kind === "sample" ? checked.text : undefined;
}

const schemaOf = (more: object) => ({ type: "json_schema", json_schema: { schema: { type: "object", ...more } } });

test("personal data in the wanted form is not kept", async () => {
  const kept = await keptOf({ response_format: schemaOf({ description: "as ann@example.com", title: "t" }) });
  expect(kept?.format).toEqual(schemaOf({ description: "as [email]", title: "t" }));
  // A number that has become a label leaves no form.
  const numbers = await keptOf({ response_format: schemaOf({ const: 4111111111111111 }) });
  expect(numbers).toMatchObject({ answer: "ok", format: undefined });
});

test("a form counts for the length of what is kept, and a strange role is not kept", async () => {
  expect(await keptOf({ response_format: schemaOf({ description: "a ".repeat(70_000) }) })).toBeUndefined();
  const messages = [{ role: "ann@example.com", content: "hello" }];
  expect((await keptOf({ messages }))?.messages).toEqual([{ role: "other", text: "hello" }]);
});
