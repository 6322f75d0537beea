/**
 * The semantic cache in a complete fleet: configuration, vectors from a model of the fleet, shadow, service, reports
 * and
 * the administrator's page.
 */
import { afterEach, expect, test } from "vitest";
import {
  earn,
  endSemanticFleets,
  newFolder,
  numbersIn,
  startSemanticFleet,
  talker,
} from "../../../test/helpers/semantic-fleet.js";
import { answerJson, startStandIn } from "../../../test/helpers/stand-in.js";

afterEach(endSemanticFleets);

test("in shadow mode nothing is served, however often hits were right, and what would have been served is counted", async () => {
  const running = await startSemanticFleet();
  await running.ask("What is the root of 9?");
  await running.until(({ counts }) => counts.stored === 1);
  const second = await running.ask("Could you tell me what the root of 9 is?");
  expect([second.status, second.header("x-millrace-cache"), running.numAsked()]).toEqual([200, null, 2]);
  const now = await running.until(({ trust }) => trust.judged === 1);
  expect(now).toMatchObject({
    model: "m",
    state: "shadow",
    entries: 1,
    counts: { agreed: 1, served: 0, judged_same: 1 },
  });
  await running.ask("What is the root of 16?");
  expect((await running.until(({ counts }) => counts.stored === 2)).counts.objections).toMatchObject({
    quantities: 1,
    content: 1,
  });
});

test("hits are served once 300 judged ones have met the bound, streamed as streams, to their tenant only; a report purges", async () => {
  const running = await startSemanticFleet({ keys: "mode: serve, audit-rate: 0.01" });
  const { ask, fleet, until, numAsked } = running;
  await earn(running, 300);
  expect((await running.status()).trust).toMatchObject({ judged: 300, wrong: 0, is_earned: true });
  const before = numAsked();
  let hit = await ask("What's the root of 1005?");
  // One in a hundred hits is an audit.
  while (hit.header("x-millrace-cache") === null) hit = await ask("What's the root of 1005?");
  expect(hit.header("x-millrace-cache")).toBe("hit");
  expect(hit.header("x-millrace-cache-kind")).toBe("semantic");
  expect(Number(hit.header("x-millrace-cache-similarity"))).toBeGreaterThan(0.8);
  expect(JSON.parse(hit.text)).toMatchObject({ choices: [{ message: { content: "It is 1005." } }] });
  expect(JSON.parse(hit.text).id).not.toBe("chatcmpl-0123456789abcdef");
  expect(numAsked()).toBeLessThan(before + 3);

  // All fields but the question are part of the namespace.
  for (const fields of [
    { temperature: 0.5 },
    { max_tokens: 7 },
    { stream: true },
    { response_format: { type: "text" } },
  ]) {
    expect((await ask("What's the root of 1006?", { fields })).header("x-millrace-cache")).toBeNull();
  }
  expect((await ask("What's the root of 1006?", { key: "kb" })).header("x-millrace-cache")).toBeNull();
  expect(
    (await ask("What's the root of 1006?", { headers: { "cache-control": "no-store" } })).header("x-millrace-cache"),
  ).toBeNull();

  await until(({ entries }) => entries >= 305);
  let streamed = await ask("What's the root of 1006?", { fields: { stream: true } });
  streamed = await ask("Tell me the root of 1006.", { fields: { stream: true } });
  while (streamed.header("x-millrace-cache") === null)
    streamed = await ask("Tell me the root of 1006.", { fields: { stream: true } });
  expect(streamed.header("content-type")).toMatch(/event-stream/);
  expect(streamed.text).toMatch(/^data: .*\n\ndata: [\s\S]*\[DONE\]\n\n$/);

  const id = hit.header("x-millrace-cache-id")!;
  const report = (key: string) =>
    fetch(`${fleet.url}/v1/cache/${id}/wrong`, { method: "POST", headers: { authorization: `Bearer ${key}` } });
  expect((await report("nobody")).status).toBe(401);
  expect((await report("kb")).status).toBe(404);
  expect(await (await report("ka")).json()).toEqual({ id, purged: true });
  expect((await report("ka")).status).toBe(404);
  expect((await ask("Tell me the root of 1005.")).header("x-millrace-cache")).toBeNull();
  expect((await running.status()).counts.reported).toBe(1);
}, 180_000);

test("the trust, the answers and the end of both outlast the process; audits that fail end the service until it is reset", async () => {
  const folder = newFolder();
  const first = await startSemanticFleet({ folder, keys: "mode: serve, audit-rate: 1" });
  await earn(first, 300);
  await first.close();
  let isChanged = false;
  for (const standIn of first.standIns)
    if (standIn === first.standIns[0]) standIn.behave = talker((question) => (isChanged ? "No." : numbersIn(question)));
  const second = await startSemanticFleet({ folder, keys: "mode: serve, audit-rate: 1", standIns: first.standIns });
  await second.ask("What is the root of 2000?");
  expect(await second.until(({ entries }) => entries === 301)).toMatchObject({
    state: "serve",
    trust: { judged: 300 },
  });
  isChanged = true;
  // Every hit is an audit, and each audit finds a different answer.
  for (let n = 1000; n < 1005; n++) await second.ask(`What's the root of ${n}?`);
  const broken = await second.until(({ state }) => state === "disabled");
  expect(broken.trust.audited_wrong).toBeGreaterThan(0);
  await second.close();
  const third = await startSemanticFleet({ folder, keys: "mode: serve", standIns: first.standIns });
  await third.ask("Hello?");
  expect((await third.until(() => true)).state).toBe("disabled");
  expect(await third.admin("semantic-cache/m/reset", "POST")).toEqual({ model: "m", state: "shadow" });
  expect((await third.status()).trust).toMatchObject({ judged: 0, is_disabled: false });
}, 180_000);

test("a judge's key that is replaced in the file is the one that the judge gets", async () => {
  const judge = await startStandIn(answerJson({ same: true }));
  const keysWith = (key: string) => `judge: { url: "${judge.url}/judge", api-key: ${key}, timeout: 5s }`;
  const running = await startSemanticFleet({ keys: keysWith("before") });
  await earn(running, 1, 9);
  await running.reload(keysWith("after"));
  await running.ask("What is the root of 16?");
  await running.until(({ entries }) => entries === 2);
  await running.ask("Can you tell me what the root of 16 is?");
  await running.until(({ trust }) => trust.judged === 2);
  expect(judge.received.map(({ headers }) => headers.authorization)).toEqual(["Bearer before", "Bearer after"]);
  await judge.die();
});

test("where the vectors cannot be had, requests pass as if there were no cache", async () => {
  const running = await startSemanticFleet();
  running.standIns[1].behave = answerJson({ error: { message: "broken" } }, 500);
  for (let i = 0; i < 3; i++) expect((await running.ask("What is the root of 9?")).status).toBe(200);
  expect(await running.until(({ counts }) => counts.failures === 3)).toMatchObject({ entries: 0 });
});
