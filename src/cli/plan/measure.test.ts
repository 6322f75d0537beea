/** A measurement that ends without figures is not a wrong option. */
import { expect, test } from "vitest";
import { planRequest } from "../../../test/helpers/plan-request.js";
import { measuredFit } from "./measure.js";

test("a benchmark that fails is told as one, with the command that says why", async () => {
  const { model, ...request } = planRequest("llama-3.1-8b", "cpu-16");
  const gone = {
    ...model,
    location: "gone.gguf",
    stored: { label: "F32", weightBytes: 1, embeddingBytes: 0 },
  };
  await expect(measuredFit({ ...request, model: gone }, true)).rejects.toMatchObject({
    code: "peer_failed",
    hint: expect.stringContaining("millrace bench engine --model gone.gguf"),
  });
}, 60_000);
