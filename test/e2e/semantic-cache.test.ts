/**
 * The semantic cache with a real embedding model of the fleet: two wordings of a question meet, and the evaluator
 * prints what the vetoes decide.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";
import { FleetProcess } from "../helpers/fleet-process.js";
import { miniLmFolder } from "../helpers/minilm.js";

const folder = miniLmFolder();

describe.skipIf(folder === undefined)("the semantic cache (needs MILLRACE_MINILM, or test:long)", () => {
  let dataFolder: string;
  let fleet: FleetProcess;
  beforeAll(async () => {
    dataFolder = mkdtempSync(join(tmpdir(), "millrace-semantic-"));
    fleet = await FleetProcess.start({
      "data-folder": dataFolder,
      models: [
        {
          name: "chat",
          model: join(repositoryRoot(), "models/mill-base.gguf"),
          "semantic-cache": { embeddings: "minilm" },
        },
        { name: "minilm", model: folder },
      ],
    });
  });
  afterAll(async () => {
    await fleet[Symbol.asyncDispose]();
    rmSync(dataFolder, { recursive: true });
  });

  const ask = async (content: string) => {
    const response = await fetch(`${fleet.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "chat", messages: [{ role: "user", content }], temperature: 0, max_tokens: 400 }),
    });
    expect(response.status).toBe(200);
    return (await response.json()) as { choices: [{ finish_reason: string }] };
  };
  const status = async () => {
    const headers = { authorization: "Bearer fleet-admin" };
    const { data } = (await (await fetch(`${fleet.url}/admin/semantic-cache`, { headers })).json()) as {
      data: { counts: Record<string, number> & { objections: Record<string, number> } }[];
    };
    return data[0]!.counts;
  };
  const until = async (fits: (counts: Awaited<ReturnType<typeof status>>) => boolean) => {
    for (let i = 0; i < 200; i++) {
      if (fits(await status())) break;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return await status();
  };

  it("finds the other wording, and not the other number", async () => {
    const [{ finish_reason }] = (await ask("What is 12 plus 7?")).choices;
    expect(finish_reason).toBe("stop");
    expect(await until(({ stored }) => stored === 1)).toMatchObject({ stored: 1, failures: 0 });
    await ask("Could you tell me what 12 plus 7 is?");
    const judged = await until((counts) => counts.judged_same! + counts.judged_different! + counts.unjudged! > 0);
    expect(judged).toMatchObject({ lookups: 2, candidates: 1, agreed: 1, served: 0 });
    await ask("What is 12 plus 8?");
    expect((await until(({ lookups }) => lookups === 3)).objections).toMatchObject({ quantities: 1, content: 1 });
  });

  it("is measured by the evaluator beside similarity alone, which takes opposites for the same", () => {
    const script = join(repositoryRoot(), "scripts/evaluate-semantic-cache.js");
    const pairs = join(repositoryRoot(), "test/data/semantic-pairs-development.jsonl");
    const args = [script, pairs, "--embeddings", fleet.url, "--model", "minilm"];
    const output = execFileSync(process.execPath, args, { encoding: "utf8" });
    expect(output).toMatch(/^vetoes, similarity ≥ 0\.7 .*precision 100\.00 %/m);
    const [, alone] = /^similarity ≥ 0\.9 alone .*precision (\d+\.\d+) %/m.exec(output) ?? [];
    expect(Number(alone)).toBeLessThan(90);
  });
});
