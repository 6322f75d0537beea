/** A browser's session without a browser: it keeps the cookie and the token as a page of the server does. */
import type { Json } from "./json.js";

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly json: Json;
  /** Code of the error, if it is one. */
  readonly code: unknown;
}

type GivenHeaders = Readonly<Record<string, string>>;

const JSON_TYPE = { "content-type": "application/json" };

export class BrowserSession {
  cookie = "";
  token = "";

  constructor(
    private readonly url: string,
    private readonly origin = url,
  ) {}

  /** A request without the cookie or with another header says so: an empty one is left out. */
  async ask(method: string, path: string, body?: object, headers: GivenHeaders = {}): Promise<Answer> {
    const isRead = method === "GET";
    const own = { cookie: this.cookie, ...(isRead ? {} : { ...JSON_TYPE, origin: this.origin }) };
    const sent = Object.entries({ ...own, "x-csrf-token": this.token, ...headers }).filter(([, value]) => value !== "");
    const text = body === undefined ? {} : { body: JSON.stringify(body) };
    const answer = await fetch(this.url + path, { method, headers: Object.fromEntries(sent), ...text });
    const got = await answer.text();
    const json = (got.startsWith("{") ? JSON.parse(got) : {}) as Json;
    return { status: answer.status, headers: answer.headers, json, code: json.error?.code };
  }

  async signIn(key: string, headers: GivenHeaders = {}): Promise<Answer> {
    const answer = await this.ask("POST", "/session", { key }, headers);
    const cookie = answer.headers.get("set-cookie");
    if (cookie !== null) this.cookie = cookie.split(";", 1)[0]!;
    if (answer.status === 201) this.token = answer.json.csrf_token as string;
    return answer;
  }

  signOut(): Promise<Answer> {
    return this.ask("DELETE", "/session");
  }
}

/** Headers of requests that another page could send with the cookie, each of which must be refused. */
export const FORGED = [
  ["without the token", { "x-csrf-token": "" }],
  ["with another token", { "x-csrf-token": "guess" }],
  ["of a page of another origin", { origin: "http://evil.example" }],
  ["of no page", { origin: "" }],
  ["of a page of another site", { "sec-fetch-site": "cross-site" }],
  ["of another port of the host", { "sec-fetch-site": "same-site" }],
] as const;
