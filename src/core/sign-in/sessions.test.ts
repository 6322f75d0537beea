/** The store of sessions: its time limit, its bound, and invalid cookies. */
import { expect, test, vi } from "vitest";
import { Secret } from "../config-values.js";
import { FailedSignIns } from "./failed-sign-ins.js";
import { foundSession, openSession } from "./session-cookie.js";
import { type Grant, SESSION_MS, Sessions } from "./sessions.js";

const grantOf = (owner: string): Grant => ({
  operator: () => ({ name: owner, role: "viewer" }),
  clientKey: undefined,
  owner,
  origin: undefined,
  isSecure: false,
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

test("an operator and a client in one browser have sessions of their own, and neither's cookie is the other's", () => {
  let now = 0;
  const sessions = new Sessions(() => now);
  const client: Grant = { ...grantOf("client"), operator: undefined, clientKey: new Secret("k") };
  let cookie = "";
  const asked = () => ({ headers: { cookie }, socket: { localPort: 1 } }) as Parameters<typeof openSession>[0];
  const signIn = (grant: Grant) => openSession(asked(), sessions, grant);
  const idIn = (set: string) => /=([\w-]{43});/.exec(set)![1]!;
  const ofClient = idIn(signIn(client).cookie);
  cookie = `millrace-client-session-1=${ofClient}`;
  now = 1000;
  const vera = signIn(grantOf("vera"));
  expect(vera.session).toMatchObject({ endsMs: SESSION_MS + 1000, clientKey: undefined });
  expect(foundSession(asked(), sessions, "client")).toMatchObject({ endsMs: SESSION_MS, operator: undefined });
  // Cookies from a page that writes its neighbours' cookies.
  cookie = `millrace-client-session-1=${idIn(vera.cookie)}; millrace-operator-session-1=${ofClient}`;
  expect(foundSession(asked(), sessions, "client")).toBeUndefined();
  expect(foundSession(asked(), sessions, "operator")).toBeUndefined();
  cookie = `millrace-operator-session-1=${idIn(vera.cookie)}`;
  signIn(grantOf("anna"));
  expect(foundSession(asked(), sessions, "operator")).toBeUndefined();
  cookie = `millrace-client-session-1=${ofClient}`;
  expect(foundSession(asked(), sessions, "client")?.owner).toBe("client");
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
