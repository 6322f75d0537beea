/** The fields of the model list beyond OpenAI's. */
import { expect, test } from "vitest";
import { fakeAppOptions } from "../../../test/helpers/fake-server.js";
import { createApp } from "../app.js";

test("/v1/models has the fields of llama-server's", async () => {
  const { engine, options } = fakeAppOptions({}, { modelNames: ["one", "two"] });
  const list = await (await createApp(options).request("/v1/models")).json();
  const { maxModelLen: n_ctx, vocabSize: n_vocab, numParameters: n_params, weightBytes: size } = engine.info;
  const facts = { aliases: ["one", "two"], tags: [], meta: { n_ctx, n_vocab, n_params, size } };
  expect(list).toMatchObject({
    data: [
      { id: "one", ...facts },
      { id: "two", ...facts },
    ],
    models: [
      { model: "one:latest", capabilities: expect.arrayContaining(["completion"]) },
      { model: "two:latest", size },
    ],
  });
});
