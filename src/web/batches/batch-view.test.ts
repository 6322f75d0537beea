import { expect, test } from "vitest";
import {
  type AnthropicBatch,
  durationText,
  type OpenAiBatch,
  ofAnthropic,
  ofOpenAi,
  secondsLeft,
} from "./batch-view.js";

const openai: OpenAiBatch = {
  id: "batch_1",
  status: "in_progress",
  endpoint: "/v1/embeddings",
  model: "m",
  errors: null,
  output_file_id: null,
  error_file_id: null,
  created_at: 100,
  in_progress_at: 110,
  request_counts: { total: 10, completed: 3, failed: 1 },
};

test.each([
  ["validating", true, false],
  ["in_progress", true, false],
  ["finalizing", false, false],
  ["cancelling", false, false],
  ["completed", false, true],
  ["failed", false, true],
  ["expired", false, true],
  ["cancelled", false, true],
])("a batch that is %s may be cancelled: %s, is over: %s", (status, mayCancel, isOver) => {
  expect(ofOpenAi({ ...openai, status })).toMatchObject({ mayCancel, isOver });
});

test("the files of a batch are addressed by their ids, whatever these are", () => {
  const { files } = ofOpenAi({ ...openai, output_file_id: "file-1", error_file_id: "a/../b" });
  expect(files).toEqual([
    { name: "Output", path: "v1/files/file-1/content" },
    { name: "Errors", path: "v1/files/a%2F..%2Fb/content" },
  ]);
});

test("Anthropic's batch has the same figures, and its results under the page's own address", () => {
  const batch: AnthropicBatch = {
    id: "b",
    processing_status: "ended",
    request_counts: { processing: 0, succeeded: 4, errored: 1, canceled: 2, expired: 3 },
    created_at: "1970-01-01T00:01:40.000Z",
    results_url: "http://internal:1/v1/messages/batches/b/results",
  };
  expect(ofAnthropic(batch)).toMatchObject({
    isOver: true,
    mayCancel: false,
    counts: { total: 10, completed: 4, failed: 6 },
    createdAt: 100,
    files: [{ name: "Results", path: "v1/messages/batches/b/results" }],
  });
  expect(ofAnthropic({ ...batch, processing_status: "in_progress", results_url: null })).toMatchObject({
    isOver: false,
    mayCancel: true,
    files: [],
  });
});

test("the time left is that of the lines so far", () => {
  // 4 lines in 20 s, 6 lines remain.
  expect(secondsLeft(ofOpenAi(openai), 130)).toBe(30);
  expect(secondsLeft(ofOpenAi({ ...openai, request_counts: { total: 10, completed: 0, failed: 0 } }), 130)).toBe(
    undefined,
  );
  expect(secondsLeft(ofOpenAi({ ...openai, status: "cancelled" }), 130)).toBe(undefined);
  // The browser's clock is behind the server's.
  expect(secondsLeft(ofOpenAi(openai), 90)).toBe(undefined);
  expect([10, 90, 7000, 7300, 90_000].map(durationText)).toEqual([
    "less than a minute",
    "2 min",
    "117 min",
    "2 h",
    "25 h",
  ]);
});
