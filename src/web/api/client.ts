/** Calls to the page's own server: with the browser's session, and with errors as exceptions in the server's words. */
import { signal } from "@preact/signals";
import { learnSession, numSessionChanges, session } from "./session.js";

/** The sign-in that a call needs: as a client of the API, or as an operator of the server. */
export type Asker = "client" | "operator";

/** The sign-in that a refused call needs; the page asks the visitor for it. */
export const wantedSignIn = signal<Asker | undefined>(undefined);

/** An operator's form stays open until it is answered: a client's form in its place would lose the key being typed. */
function wantSignIn(asker: Asker): void {
  if (wantedSignIn.peek() !== "operator") wantedSignIn.value = asker;
}

export class ApiError extends Error {
  constructor(
    message: string,
    /** The server's error code, such as `context_length_exceeded`. */
    readonly code: string | undefined,
    /** HTTP status; 0 for an error within a stream. */
    readonly status: number,
    readonly hint?: string,
  ) {
    super(message);
  }
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
  /** The request's body. */
  readonly json?: unknown;
  /** nobody: after a refusal the page does not ask for a sign-in. */
  readonly as?: Asker | "nobody";
  /**
   * The client (`client_id`) of the call; if another client is signed in by then, the call throws without a request.
   */
  readonly client?: string;
}

/** Throws if the signed-in client is not the call's. */
function assertClient(client: string | undefined): void {
  if (client === undefined || session.peek()?.client_id === client) return;
  throw new ApiError("another client, or none, is signed in now", "forbidden", 403);
}

const tokenNow = (): string | undefined => session.peek()?.csrf_token;

const ask = async (path: string, { json, as: _, client, ...rest }: CallInit): Promise<Response> => {
  assertClient(client);
  const headers = new Headers(rest.headers);
  const token = tokenNow();
  if (token !== undefined) headers.set("X-CSRF-Token", token);
  if (json !== undefined) headers.set("Content-Type", "application/json");
  const init = { ...rest, headers, ...(json === undefined ? {} : { body: JSON.stringify(json) }) };
  return fetch(path, init).catch((thrown: unknown) => {
    // Browsers word this error differently, and no wording helps a visitor.
    throw thrown instanceof TypeError ? new Error("The server does not answer") : thrown;
  });
};

/** @param path relative to the page, so that the app works under any path of a proxy */
export async function call(path: string, init: CallInit = {}): Promise<Response> {
  const { as = "client" } = init;
  const before = tokenNow();
  const numChangesBefore = numSessionChanges();
  let answer = await ask(path, init);
  if (answer.status === 401 || answer.status === 403) {
    // The session may have ended, or another tab may have signed in or out.
    await learnSession();
    const token = tokenNow();
    if (token !== undefined && token !== before) answer = await ask(path, init);
  }
  if (answer.ok) return answer;
  // After a sign-in the page renders again, and its own calls report which sign-in they lack.
  const isOfThisPage = numChangesBefore === numSessionChanges();
  if (answer.status === 401 && as !== "nobody" && isOfThisPage) wantSignIn(as);
  throw errorOf(await answer.json().catch(() => undefined), answer.status);
}

export async function getJson<T>(path: string, as: Asker | "nobody" = "client"): Promise<T> {
  return (await (await call(path, { as })).json()) as T;
}

/** Changes something under /admin. */
export const change = (method: "POST" | "PUT" | "DELETE", path: string, json?: unknown): Promise<Response> =>
  call(`admin/${path}`, { method, as: "operator", json });
