/** A line's answer when its model has just been removed. */
import { expect, test } from "vitest";
import { answerLine } from "../../../test/helpers/batch-service.js";
import { MillraceError } from "../../core/errors.js";
import type { BatchEndpoint } from "../provider-batches/endpoint.js";
import type { BatchLines } from "./batch-lines.js";
import { bookLine } from "./book-line.js";
import type { HandedModels, ProviderAnswer } from "./handed-models.js";
import type { LineResult } from "./result-lines.js";

test("an answer that has been paid for is kept only when it is booked", async () => {
  const kept: LineResult[] = [];
  const batch = { id: "batch_1", endpoint: "/v1/chat/completions", headers: {}, caller: { tenant: "t" } };
  const id = { kind: "openai", requestId: "1-1", customId: "a" };
  const lines = {
    unkept: () => undefined,
    line: async () => ({ batch, id, request: { body: { model: "m" }, bytes: Buffer.from("{}") } }),
    keep: async (_: number, result: LineResult) => void kept.push(result),
  } as unknown as BatchLines;
  let isGone = true;
  const handed = {
    endpointOf: () => (isGone ? undefined : ({} as BatchEndpoint)),
    book: async (_, answer, sink) => {
      if (isGone || answer instanceof MillraceError) throw new MillraceError("model_not_found", "expected m, got none");
      answer.isTaken = true;
      return answerLine(sink, answer.status, { object: "chat.completion" });
    },
  } as Partial<HandedModels> as HandedModels;
  const answer: ProviderAnswer = { status: 200, body: Buffer.from("{}"), price: undefined, isTaken: false };
  const book = () => bookLine(lines, handed, 0, answer, new AbortController().signal);

  await expect(book()).rejects.toThrow(expect.objectContaining({ code: "model_not_found" }));
  expect(kept).toEqual([]);
  isGone = false;
  await book();
  expect(kept.map(({ outcome }) => outcome)).toEqual(["succeeded"]);
});
