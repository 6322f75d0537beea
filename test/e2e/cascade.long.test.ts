/**
 * A cascade of the bundled models: trained on the corpus' tasks, served, and closed by its guard when the small model
 * is exchanged for a damaged one.
 */
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { chatAt, readMixture } from "../../models/corpus/families.js";
import type { RouteReport } from "../../src/routers/train.js";
import { writeDamagedModel } from "../helpers/damaged-model.js";
import { repositoryRoot } from "../helpers/fixtures.js";
import { FleetProcess } from "../helpers/fleet-process.js";
import { runCli } from "../helpers/run-cli.js";

const SEED = 1_000_005;
const NUM_TRAINING = 400;
const NUM_LIVE = 160;
const TIMEOUT_MS = 900_000;

const folder = mkdtempSync(join(tmpdir(), "millrace-cascade-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const student = join(repositoryRoot(), "models/mill-student.gguf");
const small = join(folder, "small.gguf");
const mixture = readMixture("extract=70,arithmetic=15,passage=15");
const chats = Array.from({ length: NUM_TRAINING + 2 * NUM_LIVE }, (_, index) => chatAt(SEED, index, mixture));
const models = [
  { name: "student", model: small, options: { threads: 1 } },
  { name: "base", model: "models/mill-base.gguf", options: { threads: 1 } },
];

async function ask(url: string, from: number): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  const open = chats.slice(from, from + NUM_LIVE);
  const work = async (): Promise<void> => {
    for (let chat = open.pop(); chat !== undefined; chat = open.pop()) {
      const body = JSON.stringify({ model: "smart", messages: chat.messages.slice(0, -1), max_tokens: 300 });
      const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", body });
      expect(response.status).toBe(200);
      await response.text();
      const decision = response.headers.get("x-millrace-cascade")!;
      counts[decision] = (counts[decision] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: 6 }, work));
  return counts;
}

test(
  "saves cost, keeps quality, beats mixing, and closes for a damaged model",
  async () => {
    copyFileSync(student, small);
    const prompts = join(folder, "prompts.jsonl");
    writeFileSync(
      prompts,
      chats
        .slice(0, NUM_TRAINING)
        .map((chat) => `${JSON.stringify(chat)}\n`)
        .join(""),
    );
    const out = join(folder, "route");
    let report: RouteReport;
    {
      await using fleet = await FleetProcess.start({ models });
      const args = [
        "route",
        "train",
        "--small",
        "student",
        "--large",
        "base",
        "--url",
        fleet.url,
        "--prompts",
        prompts,
      ];
      const flags = ["--out", out, "--max-tokens", "300", "--max-loss", "0.05", "--json"];
      // Prices by the models' sizes: the machine's time would depend on what else it does.
      const prices = ["--small-price", "0.2,0.2", "--large-price", "1,1"];
      const { stdout } = await runCli(...args, ...flags, ...prices);
      report = JSON.parse(stdout) as RouteReport;
    }
    const { saved, gainOverMixing, qualityDifference, kept } = report.figures;
    expect(kept.value).toBeGreaterThan(0.2);
    expect(saved.low).toBeGreaterThan(0);
    expect(gainOverMixing.low).toBeGreaterThan(0);
    expect(qualityDifference.high).toBeGreaterThan(-0.05);

    // The router is trained on few prompts, so the bound leaves it some room.
    const audit = { share: 0.8, "max-loss": 0.1, "alarm-every": 1000 };
    const cascades = [{ name: "smart", small: "student", large: "base", router: join(out, "router.json"), audit }];
    const config = { models, cascades, "data-folder": join(folder, "data") };
    {
      await using fleet = await FleetProcess.start(config);
      const counts = await ask(fleet.url, NUM_TRAINING);
      expect(counts.closed ?? 0).toBe(0);
      expect(counts.kept, JSON.stringify([counts, report.figures.kept, report.figures.floor])).toBeGreaterThan(1);
    }
    writeDamagedModel(student, small, [
      ["3", "8"],
      ["1", "7"],
    ]);
    await using fleet = await FleetProcess.start(config);
    const counts = await ask(fleet.url, NUM_TRAINING + NUM_LIVE);
    const headers = { authorization: "Bearer fleet-admin" };
    const state = await (await fetch(`${fleet.url}/admin/cascades`, { headers })).text();
    expect(counts.closed ?? 0, `${state} ${JSON.stringify(counts)}`).toBeGreaterThan(0);
  },
  TIMEOUT_MS,
);
