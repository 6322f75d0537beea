import { describe, expect, test } from "vitest";
import { assertPageAllowed, type PagePolicy, pagePolicy } from "./cors.js";

const isAllowed = (policy: PagePolicy, host: string | undefined, origin?: string) => {
  try {
    assertPageAllowed(policy, { host, origin });
    return true;
  } catch (thrown) {
    expect(thrown).toMatchObject({ code: "forbidden", status: 403 });
    return false;
  }
};

describe("on loopback, without keys", () => {
  const policy = pagePolicy(undefined, false, "127.0.0.1");

  test.each([
    ["127.0.0.1:8000", undefined],
    ["localhost:8000", undefined],
    ["LOCALHOST:8000", undefined],
    ["[::1]:8000", undefined],
    ["host.docker.internal:8000", undefined],
    ["machine:8000", undefined],
    [undefined, undefined],
    ["127.0.0.1:8000", "http://127.0.0.1:8000"],
    ["localhost:8000", "http://localhost:8000"],
  ])("%s from %s may", (host, origin) => expect(isAllowed(policy, host, origin)).toBe(true));

  test.each([
    ["127.0.0.1:8000", "http://evil.example"],
    ["127.0.0.1:8000", "http://127.0.0.1:9000"],
    ["127.0.0.1:8000", "http://localhost:8000"],
    ["127.0.0.1:8000", "null"],
    ["127.0.0.1:8000", "file://"],
    // A page whose name was pointed here after it was loaded.
    ["evil.example:8000", "http://evil.example:8000"],
    ["evil.example:8000", undefined],
    ["127.0.0.1.evil.example", undefined],
    ["localhost.evil.example:8000", undefined],
  ])("%s from %s may not", (host, origin) => expect(isAllowed(policy, host, origin)).toBe(false));
});

test("beyond loopback any name may stand for the server", () => {
  const policy = pagePolicy(undefined, false, "0.0.0.0");
  expect(isAllowed(policy, "models.example", "https://models.example")).toBe(true);
  expect(isAllowed(policy, "models.example", "https://evil.example")).toBe(false);
});

test("origins that are named may, and their names in Host", () => {
  const policy = pagePolicy(["https://app.example"], false, "127.0.0.1");
  expect(isAllowed(policy, "127.0.0.1:8000", "https://app.example")).toBe(true);
  expect(isAllowed(policy, "app.example", undefined)).toBe(true);
  expect(isAllowed(policy, "127.0.0.1:8000", "https://evil.example")).toBe(false);
  expect(isAllowed(pagePolicy(["*"], false, "127.0.0.1"), "evil.example", "http://evil.example")).toBe(true);
});

test("who is refused is told the ways out as flags and as a fleet's file has them", () => {
  const policy = pagePolicy(undefined, false, "127.0.0.1");
  const ways = /--api-key.*api-keys.*--allowed-origins.*allowed-origins/;
  const refusal = expect.objectContaining({ hint: expect.stringMatching(ways) });
  expect(() => assertPageAllowed(policy, { origin: "http://evil.example", host: "127.0.0.1:8000" })).toThrow(refusal);
});

test("with keys, pages need one like everybody", () => {
  const policy = pagePolicy(undefined, true, "127.0.0.1");
  expect(policy.origins).toEqual(["*"]);
  expect(isAllowed(policy, "evil.example", "http://evil.example")).toBe(true);
});
