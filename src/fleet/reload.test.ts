import { expect, test } from "vitest";
import { parseConfig } from "./config/read-config.js";
import { changesOf } from "./reload.js";

const ENVIRONMENT = { OLD: "old", NEW: "new" };

/** Keys that need a restart when the second text replaces the first. */
function needRestart(before: string, after: string): readonly string[] {
  const of = (text: string) => {
    const whole = text.includes("models:") ? text : `${text}\nmodels: [{ name: m, model: x }]`;
    return { config: parseConfig(whole, "millrace.yaml", ENVIRONMENT), planned: [] };
  };
  return changesOf(of(before), of(after)).needRestart;
}

test("a file that has not changed needs no restart", () => {
  const text = "budgets: { store: redis, url: env:OLD }\nledger: {}\nalerts: { webhook-secret: env:OLD }";
  expect(needRestart(text, text)).toEqual([]);
});

test.each([
  ["port: 1", "port: 2", ["port"]],
  ["ledger: { keep-days: 1 }", "ledger: { keep-days: 2 }", ["ledger"]],
  ["", "budgets: { store: redis, url: 'redis://a' }", ["budgets.store", "budgets.url"]],
  ["budgets: { store-timeout: 1s }", "budgets: { store-timeout: 2s }", ["budgets.store-timeout"]],
  ["budgets: { when-store-down: fail-open }", "budgets: { when-store-down: fail-closed }", []],
  ["timeouts: { connect: 1s }", "timeouts: { connect: 2s }", ["timeouts.connect"]],
  ["timeouts: { stalled-client: 1s }", "timeouts: { stalled-client: 2s }", ["timeouts.stalled-client"]],
  ["timeouts: { idle: 1s }", "timeouts: { idle: 2s }", []],
  [
    "models: [{ name: m, model: x }, { name: e, model: y }]",
    "models: [{ name: m, model: x, semantic-cache: { embeddings: e } }, { name: e, model: y }]",
    ["semantic-cache"],
  ],
])("%s, then %s", (before, after, expected) => expect(needRestart(before, after)).toEqual(expected));

test.each([
  ["budgets: { store: redis, url: env:KEY }", "budgets.url"],
  ["ledger: {}\nalerts: { webhook-secret: env:KEY }", "alerts"],
])("another secret under the same key of %s", (text, key) => {
  expect(needRestart(text.replace("KEY", "OLD"), text.replace("KEY", "NEW"))).toEqual([key]);
});
