/** Calls to the server that the page came from: with the visitor's key, and with errors as exceptions that carry the server's words. */
import { type Signal, signal } from "@preact/signals";
import { learnSession, session } from "./session.js";

const KEY_NAMES = { client: "millrace-key", admin: "millrace-admin-key" } as const;

/** Whom a call needs: a client of the API with a key, or somebody who runs the server. */
export type Role = keyof typeof KEY_NAMES;

export class ApiError extends Error {
  constructor(
    message: string,
    /** The server's code, such as `context_length_exceeded`. */
    readonly code: string | undefined,
    /** HTTP's status; 0 for an error within a stream. */
    readonly status: number,
    readonly hint?: string,
  ) {
    super(message);
  }
}

const stored = (role: Role): Signal<string> => signal(sessionStorage.getItem(KEY_NAMES[role]) ?? "");
/** The keys of this tab, which are gone when it is closed. A gateway's operators have sessions instead; a server of one model has none. */
const keys: Readonly<Record<Role, Signal<string>>> = { client: stored("client"), admin: stored("admin") };
/** A call was refused for want of this key: the page asks for it. */
export const wantedKey = signal<Role | undefined>(undefined);

export function useKey(role: Role, key: string): void {
  sessionStorage.setItem(KEY_NAMES[role], key);
  keys[role].value = key;
}

interface ErrorBody {
  readonly message?: string;
  readonly code?: string;
  readonly hint?: string;
}

export function errorOf(body: unknown, status: number): ApiError {
  const { message, code, hint } = ((body as { error?: ErrorBody } | undefined)?.error ?? {}) as ErrorBody;
  return new ApiError(message ?? `the server answered ${status}`, code, status, hint);
}

interface CallInit extends RequestInit {
  /** Sent as the body. */
  readonly json?: unknown;
  /** nobody: a sign-in, whose refusal asks for nothing. */
  readonly role?: Role | "nobody";
}

const ask = (path: string, { json, role = "client", ...rest }: CallInit): Promise<Response> => {
  const headers = new Headers(rest.headers);
  const token = session.peek()?.csrf_token;
  const key = role === "nobody" ? "" : keys[role].peek();
  if (key !== "") headers.set("Authorization", `Bearer ${key}`);
  if (role === "admin" && token !== undefined) headers.set("X-CSRF-Token", token);
  if (json !== undefined) headers.set("Content-Type", "application/json");
  return fetch(path, { ...rest, headers, ...(json === undefined ? {} : { body: JSON.stringify(json) }) });
};

/** @param path relative to the page, so that the app works under any path of a proxy */
export async function call(path: string, init: CallInit = {}): Promise<Response> {
  const { role = "client" } = init;
  const before = session.peek()?.csrf_token;
  let answer = await ask(path, init);
  const hasSessions = session.peek() !== undefined;
  if (role === "admin" && hasSessions && (answer.status === 401 || answer.status === 403)) {
    // Another tab may have signed in or out, with another session.
    await learnSession();
    const token = session.peek()?.csrf_token;
    if (token !== undefined && token !== before) answer = await ask(path, init);
  }
  if (answer.ok) return answer;
  if (answer.status === 401 && role !== "nobody") wantedKey.value = role;
  throw errorOf(await answer.json().catch(() => undefined), answer.status);
}

export async function getJson<T>(path: string, role: Role = "client"): Promise<T> {
  return (await (await call(path, { role })).json()) as T;
}

/** Changes something under /admin. */
export const change = (method: "POST" | "PUT" | "DELETE", path: string, json?: unknown): Promise<Response> =>
  call(`admin/${path}`, { method, role: "admin", json });
