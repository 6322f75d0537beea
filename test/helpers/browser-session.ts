/** A browser's sessions without a browser: it keeps the cookies and the token as a page of the server does. */
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
  /** By name, each as `name=value`. */
  readonly #jar = new Map<string, string>();
  token = "";

  constructor(
    private readonly url: string,
    private readonly origin = url,
  ) {}

  /** As the header has them. */
  get cookie(): string {
    return [...this.#jar.values()].join("; ");
  }

  /** A request without the cookie or with another header says so: an empty one is left out. */
  async ask(method: string, path: string, body?: object, headers: GivenHeaders = {}): Promise<Answer> {
    const isRead = method === "GET";
    const own = { cookie: this.cookie, ...(isRead ? {} : { ...JSON_TYPE, origin: this.origin }) };
    const sent = Object.entries({ ...own, "x-csrf-token": this.token, ...headers }).filter(([, value]) => value !== "");
    const text = body === undefined ? {} : { body: JSON.stringify(body) };
    const answer = await fetch(this.url + path, { method, headers: Object.fromEntries(sent), ...text });
    this.#keep(answer.headers.getSetCookie());
    const got = await answer.text();
    const json = (got.startsWith("{") ? JSON.parse(got) : {}) as Json;
    return { status: answer.status, headers: answer.headers, json, code: json.error?.code };
  }

  async signIn(key: string, headers: GivenHeaders = {}): Promise<Answer> {
    const answer = await this.ask("POST", "/session", { key }, headers);
    if (answer.status === 201) this.token = answer.json.csrf_token as string;
    return answer;
  }

  /** @param as undefined: as whatever the browser is signed in */
  signOut(as?: "operator" | "client"): Promise<Answer> {
    return this.ask("DELETE", as === undefined ? "/session" : `/session?as=${as}`);
  }

  #keep(setCookies: readonly string[]): void {
    for (const each of setCookies) {
      const pair = each.split(";", 1)[0]!;
      const name = pair.split("=", 1)[0]!;
      if (/; Max-Age=0;/.test(each)) this.#jar.delete(name);
      else this.#jar.set(name, pair);
    }
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
