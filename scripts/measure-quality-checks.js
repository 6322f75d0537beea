/**
 * Measures the CPU time of one sampled answer: reading, all checks, and removing personal data from its texts, as in
 * the gateway's thread.
 *
 *   node scripts/measure-quality-checks.js [--samples 500]
 *
 * Compare with the CPU time of a request: at a share of 2 %, a request costs a fiftieth of a sample.
 */
import { parseArgs } from "node:util";
import { uniform } from "../dist/src/core/random.js";
import { privatePatterns, runCheckJob } from "../dist/src/gateway/quality/check-job.js";

const { values } = parseArgs({ options: { samples: { type: "string", default: "500" } } });
const count = Number(values.samples);
const random = uniform(1);
const WORDS =
  "the station reports that Mokala measured 1,250 units of water near Lake Orin in March and sent the figures to the office for the yearly report".split(
    " ",
  );
const textOf = (numWords) =>
  Array.from({ length: numWords }, () => WORDS[Math.floor(random() * WORDS.length)]).join(" ");
const patterns = privatePatterns([]);

console.log("| Prompt | Answer | CPU time a sample | a request, at 2 % | 1 % of a request of |");
console.log("| --- | --- | --- | --- | --- |");
for (const [prompt, answer] of [
  [100, 100],
  [1000, 250],
  [8000, 500],
]) {
  const jobs = Array.from({ length: count }, () => ({
    kind: "sample",
    path: "/v1/chat/completions",
    request: Buffer.from(JSON.stringify({ messages: [{ role: "user", content: textOf(prompt) }] })),
    answer: Buffer.from(JSON.stringify({ choices: [{ message: { content: textOf(answer) }, finish_reason: "stop" }] })),
    isEventStream: false,
    keepsText: true,
  }));
  for (const job of jobs.slice(0, 20)) await runCheckJob(job, patterns);
  const before = process.cpuUsage();
  for (const job of jobs) await runCheckJob(job, patterns);
  const { user, system } = process.cpuUsage(before);
  const ms = (user + system) / 1000 / count;
  const perRequest = 0.02 * ms;
  console.log(
    `| ${prompt} words | ${answer} words | ${ms.toFixed(1)} ms | ${perRequest.toFixed(3)} ms | ${(100 * perRequest).toFixed(1)} ms |`,
  );
}
