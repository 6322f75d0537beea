/** Calls to the server that the page came from: with the visitor's key, and with errors as exceptions that carry the server's words. */
import { type Signal, signal } from "@preact/signals";

const KEY_NAMES = { client: "millrace-key", admin: "millrace-admin-key" } as const;

/** Whose key a call needs: that of a client of the API, or the administrator's. */
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

const stored = (role: Role): string => sessionStorage.getItem(KEY_NAMES[role]) ?? "";

/** The keys of this tab; they are gone when the tab is closed. */
const keys: Readonly<Record<Role, Signal<string>>> = {
  client: signal(stored("client")),
  admin: signal(stored("admin")),
};
/** A call was refused for want of this key: the page asks for it. */
export const wantedKey = signal<Role | undefined>(undefined);

export function useKey(role: Role, key: string): void {
  sessionStorage.setItem(KEY_NAMES[role], key);
  keys[role].value = key;
  wantedKey.value = undefined;
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
  readonly role?: Role;
}

/** @param path relative to the page, so that the app works under any path of a proxy */
export async function call(path: string, init: CallInit = {}): Promise<Response> {
  const { json, role = "client", ...rest } = init;
  const headers = new Headers(rest.headers);
  const key = keys[role].peek();
  if (key !== "") headers.set("Authorization", `Bearer ${key}`);
  if (json !== undefined) headers.set("Content-Type", "application/json");
  const answer = await fetch(path, { ...rest, headers, ...(json === undefined ? {} : { body: JSON.stringify(json) }) });
  if (answer.ok) return answer;
  if (answer.status === 401) wantedKey.value = role;
  throw errorOf(await answer.json().catch(() => undefined), answer.status);
}

export async function getJson<T>(path: string, role: Role = "client"): Promise<T> {
  return (await (await call(path, { role })).json()) as T;
}
