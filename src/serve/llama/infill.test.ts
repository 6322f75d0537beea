/** llama-server's /infill in front of a fake engine: the tokens for an editor's texts. */
import { describe, expect, it } from "vitest";
import { ask, writing } from "../../../test/helpers/ask.js";
import { BOS_ID, fakeTokenizer } from "../../../test/helpers/fake-tokenizer.js";

const [prefix, suffix, middle, repository, file] = [1, 2, 3, 4, 5];
const bytes = (text: string) => [...Buffer.from(text)];
const gap = { input_prefix: "ab", input_suffix: "cd" };
const extra = [{ text: "one", filename: "1.ts" }, { text: "two" }];
const rest = [prefix, ...bytes("ab"), suffix, ...bytes("cd"), middle];

async function promptOf(body: object, infill = {}): Promise<readonly number[]> {
  const tokenizer = { ...fakeTokenizer, infill: { prefix, suffix, middle, ...infill } };
  const { fake, status } = await ask("/infill", body, writing("x"), { tokenizer });
  expect(status).toBe(200);
  return Array.from(fake.engine.submitted[0]!.promptIds);
}

it("takes all fields that llama.vim sends", async () => {
  const editor = {
    id_slot: 0,
    input_extra: extra,
    prompt: "  x = ",
    n_predict: 128,
    stop: [],
    n_indent: 2,
    top_k: 40,
    top_p: 0.9,
    stream: false,
    samplers: ["top_k", "top_p", "infill"],
    cache_prompt: true,
    t_max_prompt_ms: 500,
    t_max_predict_ms: 1000,
    response_fields: ["content", "timings/prompt_n", "timings/predicted_per_second", "truncated", "tokens_cached"],
  };
  expect((await promptOf({ ...gap, ...editor })).slice(-1)).toEqual([middle]);
});

describe("input_extra", () => {
  it("comes first, with the names of files where the model knows files", async () => {
    expect(await promptOf({ ...gap, input_extra: [] })).toEqual([BOS_ID, ...rest]);
    expect(await promptOf({ ...gap, input_extra: extra }, { repository, file })).toEqual([
      BOS_ID,
      repository,
      ...bytes("myproject\n"),
      file,
      ...bytes("1.ts\none"),
      file,
      ...bytes("tmp\ntwo"),
      file,
      ...bytes("filename\n"),
      ...rest,
    ]);
    const line = "\n\n--- snippet ---\n\n";
    expect(await promptOf({ ...gap, input_extra: extra })).toEqual([BOS_ID, ...bytes(`${line}one${line}two`), ...rest]);
  });

  it("loses its beginning where the context has no room for all beside the answer", async () => {
    const input_extra = [{ text: "x".repeat(100_000) }, { text: "end" }];
    const ids = await promptOf({ ...gap, n_predict: 7, input_extra });
    expect(ids.slice(-rest.length - 3)).toEqual([...bytes("end"), ...rest]);
    const unlimited = await promptOf({ ...gap, input_extra });
    const contextLength = ids.length + 7;
    expect(unlimited).toHaveLength(contextLength - Math.ceil(contextLength / 4));
    // A gap that fills the context stays complete.
    const long = { input_prefix: "a".repeat(contextLength - 20), input_suffix: "", input_extra, n_predict: 100 };
    expect(await promptOf(long)).toHaveLength(contextLength - 20 + 4);
  });

  it("of another form, or too long, is refused", async () => {
    for (const input_extra of [
      "x",
      [1],
      [{ filename: "a" }],
      [{ text: "a", filename: 1 }],
      [{ text: "x".repeat(300_000) }],
    ]) {
      const tokenizer = { ...fakeTokenizer, infill: { prefix, suffix, middle } };
      const { body } = await ask("/infill", { ...gap, input_extra }, {}, { tokenizer });
      expect(body.error).toMatchObject({ code: "invalid_parameter", param: "input_extra" });
    }
    const { body } = await ask("/infill", { ...gap, input_extra: extra });
    expect(body.error).toMatchObject({ code: "unsupported_field", param: "input_suffix" });
  });
});
