/** The store of sessions: its end of time, its bound, and what is not found in it. */
import { expect, test, vi } from "vitest";
import { Secret } from "../config-values.js";
import { FailedSignIns } from "./failed-sign-ins.js";
import { openSession } from "./session-cookie.js";
import { type Grant, SESSION_MS, Sessions } from "./sessions.js";

const grantOf = (owner: string): Grant => ({
  operator: () => ({ name: owner, role: "viewer" }),
  clientKey: undefined,
  owner,
  origin: undefined,
});

test("sessions end after half a day", () => {
  let now = 0;
  const sessions = new Sessions(() => now);
  const { id } = sessions.open(grantOf("vera"));
  expect(sessions.find(id)?.who?.name).toBe("vera");
  now = SESSION_MS;
  expect(sessions.find(id)).toBeUndefined();
  now = 0;
  expect(sessions.find(id)).toBeUndefined();
});

test("of too many sessions the oldest ends of whoever has the most", () => {
  const sessions = new Sessions(() => 0);
  const vera = sessions.open(grantOf("vera")).id;
  const others = Array.from({ length: 2000 }, () => sessions.open(grantOf("greedy")).id);
  expect(sessions.find(vera)?.who?.name).toBe("vera");
  expect(others.map((id) => sessions.find(id) !== undefined)).toEqual(others.map((_, i) => i >= 1001));
});

test("sessions that are over make room before any other ends", () => {
  let now = 0;
  const sessions = new Sessions(() => now);
  for (let i = 0; i < 1000; i++) sessions.open(grantOf(`early ${i}`), 10);
  now = 10;
  const ids = Array.from({ length: 1000 }, (_, i) => sessions.open(grantOf(`late ${i}`)).id);
  expect(ids.every((id) => sessions.find(id) !== undefined)).toBe(true);
});

test("a second key does not prolong the first, nor gets it from another page", () => {
  let now = 0;
  const sessions = new Sessions(() => now);
  const client: Grant = { ...grantOf("client"), operator: undefined, clientKey: new Secret("k") };
  let cookie = "";
  const signIn = (grant: Grant) => {
    const asked = { headers: { cookie }, socket: { localPort: 1 } } as Parameters<typeof openSession>[0];
    const { id, session } = openSession(asked, sessions, grant);
    cookie = `millrace-session-1=${id}`;
    return session;
  };
  expect(signIn(grantOf("vera")).endsMs).toBe(SESSION_MS);
  now = 1000;
  expect(signIn(client)).toMatchObject({ endsMs: SESSION_MS, owner: "vera", clientKey: client.clientKey });
  now = 2000;
  const renewed = { ...client, ...grantOf("vera"), clientKey: client.clientKey };
  expect(signIn(renewed).endsMs).toBe(SESSION_MS + 2000);
  const elsewhere = signIn({ ...client, origin: "https://other.example" });
  expect([elsewhere.operator, elsewhere.owner]).toEqual([undefined, "client"]);
});

test("a session of nobody ends, and texts that are no ids are not looked up", () => {
  const sessions = new Sessions();
  const operator = vi.fn((): undefined => undefined);
  const { id } = sessions.open({ ...grantOf("gone"), operator });
  for (let i = 0; i < 2; i++) expect(sessions.find(id)).toBeUndefined();
  expect(operator).toHaveBeenCalledTimes(1);
  for (const text of ["", "x", `${id} `, "é".repeat(43), "a".repeat(10_000)]) {
    expect(sessions.find(text)).toBeUndefined();
  }
});

test("failures are counted by address, and forgotten after a minute", () => {
  let now = 0;
  const failed = new FailedSignIns(() => now);
  for (let i = 0; i < 10; i++) expect(failed.add("a")).toBeUndefined();
  expect(failed.add("a")).toMatchObject({ code: "rate_limit_exceeded", retryAfterSeconds: 60 });
  expect(failed.add("b")).toBeUndefined();
  now = 60_000;
  expect(failed.add("a")).toBeUndefined();
});
