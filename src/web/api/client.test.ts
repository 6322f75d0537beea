/** The refusals after which the page asks for a sign-in. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { call, wantedSignIn } from "./client.js";
import { takeSession } from "./session.js";

const OPERATOR = { signed_in: true, role: "admin", is_client: false, csrf_token: "t" } as const;
/** Called while a refused call reads the session. */
let meanwhile: () => void;

beforeEach(() => {
  meanwhile = () => {};
  wantedSignIn.value = undefined;
  takeSession(undefined);
  vi.stubGlobal("fetch", async (path: string) => {
    if (path !== "session") return Response.json({ error: { message: "no key" } }, { status: 401 });
    meanwhile();
    return Response.json({ signed_in: false });
  });
});
afterEach(() => vi.unstubAllGlobals());

test("a refused call asks for the sign-in that it needs", async () => {
  await expect(call("v1/models")).rejects.toThrow("no key");
  expect(wantedSignIn.value).toBe("client");
});

test("a call of the page before a sign-in asks for none behind it", async () => {
  meanwhile = () => takeSession(OPERATOR);
  await expect(call("v1/models")).rejects.toThrow("no key");
  expect(wantedSignIn.value).toBeUndefined();
});
