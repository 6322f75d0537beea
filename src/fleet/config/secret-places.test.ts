import { expect, test } from "vitest";
import { Document } from "yaml";
import { everyConfigKey } from "../../../test/helpers/every-config-key.js";
import { checkConfig } from "./read-config.js";
import { configSchema } from "./schema.js";
import { mayHoldSecret, secretPlacesIn } from "./secret-places.js";

/** The variables that reading the file looks up. Only secrets are looked up, so this finds places without a mark. */
function lookedUp(root: unknown): readonly string[] {
  const names = new Set<string>();
  const get = (_: object, name: string): string => {
    names.add(name);
    return "https://value.example";
  };
  configSchema(new Proxy({}, { get } as ProxyHandler<NodeJS.ProcessEnv>)).safeParse(root);
  return [...names].sort();
}

test("every key that is read as a secret is known as one, and no other", () => {
  let numPlaces = 0;
  for (const root of everyConfigKey()) {
    const places = secretPlacesIn(root);
    expect(places.map(({ value }) => value.replace("env:", "")).toSorted()).toEqual(lookedUp(root));
    numPlaces = Math.max(numPlaces, places.length);
  }
  expect(numPlaces).toBeGreaterThan(15);
});

test("a place has its path; what is not there is no place", () => {
  const webhook = [{ url: "https://hooks.example/a" }, { url: "env:B", secret: "s" }];
  expect(secretPlacesIn({ "admin-key": "k", host: "h", alerts: { webhook }, nobody: { key: "x" } })).toEqual([
    { path: ["admin-key"], value: "k" },
    { path: ["alerts", "webhook", 0, "url"], value: "https://hooks.example/a" },
    { path: ["alerts", "webhook", 1, "url"], value: "env:B" },
    { path: ["alerts", "webhook", 1, "secret"], value: "s" },
  ]);
  for (const nothing of [undefined, null, 5, "text", [], { models: null }]) expect(secretPlacesIn(nothing)).toEqual([]);
});

test("a value in place of a secret, or of what holds it, may be one", () => {
  for (const path of [["admin-key"], ["api-keys"], ["models", 0, "env", "A"], ["models", 0, "attach", 1], ["hooks"]]) {
    expect(mayHoldSecret(path), path.join(".")).toBe(true);
  }
  for (const path of [["host"], ["models", 0, "name"], ["timeouts", "idle"]]) {
    expect(mayHoldSecret(path), path.join(".")).toBe(false);
  }
});

test("no message about a wrong value shows a secret", () => {
  for (const root of everyConfigKey()) {
    const document = new Document(root);
    for (const { path } of secretPlacesIn(root)) document.setIn(path, "sk plain");
    const { problems } = checkConfig(String(document), {});
    expect(problems.length).toBeGreaterThan(20);
    expect(JSON.stringify(problems)).not.toContain("sk plain");
  }
  for (const text of ["api-keys: sk-plain", "operators: [sk-plain]", "hooks: { langfuse: sk-plain }"]) {
    expect(JSON.stringify(checkConfig(text, {}).problems)).not.toContain("sk-plain");
  }
});
