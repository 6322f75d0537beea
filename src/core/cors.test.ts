import { hostname } from "node:os";
import { describe, expect, test } from "vitest";
import { assertPageAllowed, type HeaderOf, type PagePolicy, pagePolicy } from "./cors.js";

type Headers = Partial<Record<Parameters<HeaderOf>[0], string | undefined>>;

const isAllowed = (policy: PagePolicy, host: string | undefined, origin?: string, more: Headers = {}) => {
  const headers: Headers = { host, origin, ...more };
  try {
    assertPageAllowed(policy, (name) => headers[name]);
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
    ["localhost.:8000", undefined],
    ["[::1]:8000", undefined],
    ["[::1]", undefined],
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
    // A page whose name was redirected here after it loaded.
    ["evil.example:8000", "http://evil.example:8000"],
    ["evil.example:8000", undefined],
    ["127.0.0.1.evil.example", undefined],
    ["localhost.evil.example:8000", undefined],
  ])("%s from %s may not", (host, origin) => expect(isAllowed(policy, host, origin)).toBe(false));
});

describe("beyond loopback, without keys", () => {
  const policy = pagePolicy(undefined, false, "0.0.0.0");
  const browser = { "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0" };

  test.each([
    "192.168.1.7:8000",
    "192.168.1.7",
    "[fe80::1]:8000",
    "localhost:8000",
    "localhost.:8000",
    "box:8000",
    "BOX.local:8000",
    "box.local.:8000",
    "box.lan:8000",
    "box.home.arpa",
    "box.corp.internal:8000",
    `${hostname()}:8000`,
  ])("the page at %s may", (host) => {
    expect(isAllowed(policy, host, `http://${host.toLowerCase()}`, browser)).toBe(true);
    expect(isAllowed(policy, host, undefined, browser)).toBe(true);
    expect(isAllowed(policy, host, "http://evil.example", browser)).toBe(false);
  });

  test.each([
    "evil.example:8000",
    "evil.example",
    "192.168.1.7.evil.example:8000",
    "box.local.evil.example",
    "evillocal.example",
    "mylan.example:8000",
  ])("a page whose name %s was pointed here may not", (host) => {
    expect(isAllowed(policy, host, `http://${host}`)).toBe(false);
    expect(isAllowed(policy, host, undefined, browser)).toBe(false);
    expect(isAllowed(policy, host, undefined, { "sec-fetch-site": "same-origin" })).toBe(false);
  });

  test("programs may, by whatever name they know the server", () => {
    for (const agent of [undefined, "curl/8.5.0", "node", "Mozilla/5.0 (Windows NT 10.0) PowerShell/7.5.0"]) {
      expect(isAllowed(policy, "models.example:8000", undefined, { "user-agent": agent })).toBe(true);
    }
  });

  test("the name that the server listens on is its own, and so are the names of allowed origins", () => {
    const named = pagePolicy(undefined, false, "Models.example");
    expect(isAllowed(named, "models.example:8000", "http://models.example:8000", browser)).toBe(true);
    expect(isAllowed(named, "evil.example:8000", "http://evil.example:8000", browser)).toBe(false);
    const allowed = pagePolicy(["https://models.example"], false, "0.0.0.0");
    expect(isAllowed(allowed, "models.example", "https://models.example", browser)).toBe(true);
    expect(isAllowed(allowed, "models.example", undefined, browser)).toBe(true);
    expect(isAllowed(allowed, "evil.example", "https://evil.example", browser)).toBe(false);
  });
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
  const headers: Headers = { origin: "http://evil.example", host: "127.0.0.1:8000" };
  expect(() => assertPageAllowed(policy, (name) => headers[name])).toThrow(refusal);
});

test("with keys, pages need one like everybody", () => {
  const policy = pagePolicy(undefined, true, "127.0.0.1");
  expect(policy.origins).toEqual(["*"]);
  expect(isAllowed(policy, "evil.example", "http://evil.example")).toBe(true);
});
