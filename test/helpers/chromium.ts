/** A page in headless Chromium, driven over its debugging port. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { WebSocket } from "undici";

const PATHS = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** Undefined: none is installed, and tests that need one are skipped. */
export const chromiumPath = PATHS.find((path) => path !== undefined && existsSync(path));

export interface BrowserPage extends AsyncDisposable {
  /** The value of an expression in the page; a promise's, too. */
  evaluate<T>(expression: string): Promise<T>;
  /** Waits until an expression is true. */
  until(expression: string): Promise<void>;
}

interface Reply {
  readonly id?: number;
  readonly result?: Record<string, unknown>;
  readonly error?: { readonly message: string };
}

type Call = (method: string, params?: object) => Promise<Record<string, unknown>>;

async function debuggerUrl(child: ChildProcess): Promise<string> {
  for await (const line of createInterface({ input: child.stderr! })) {
    const url = /^DevTools listening on (ws:\S+)/.exec(line)?.[1];
    if (url !== undefined) return url;
  }
  throw new Error("Chromium ended before it could be driven");
}

async function connect(url: string): Promise<{ readonly call: Call; setSession(id: string): void; close(): void }> {
  const socket = new WebSocket(url);
  const waiting = new Map<number, (reply: Reply) => void>();
  let nextId = 1;
  let sessionId: string | undefined;
  socket.addEventListener("message", ({ data }) => {
    const reply = JSON.parse(String(data)) as Reply;
    if (reply.id !== undefined) waiting.get(reply.id)?.(reply);
  });
  await new Promise<void>((resolve, reject) => {
    socket.addEventListener("open", () => resolve());
    socket.addEventListener("error", () => reject(new Error("no connection to Chromium")));
  });
  const call: Call = (method, params = {}) =>
    new Promise((resolve, reject) => {
      const id = nextId++;
      waiting.set(id, ({ result = {}, error }) => {
        waiting.delete(id);
        if (error === undefined) resolve(result);
        else reject(new Error(`${method}: ${error.message}`));
      });
      socket.send(JSON.stringify({ id, method, params, sessionId }));
    });
  return {
    call,
    setSession: (id) => {
      sessionId = id;
    },
    close: () => socket.close(),
  };
}

export async function openPage(url: string): Promise<BrowserPage> {
  const profile = mkdtempSync(join(tmpdir(), "millrace-chromium-"));
  const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"];
  const args = [...flags, "--remote-debugging-port=0", `--user-data-dir=${profile}`, "about:blank"];
  const child = spawn(chromiumPath!, args, { stdio: ["ignore", "ignore", "pipe"], detached: true });
  const exited = new Promise((resolve) => child.once("exit", resolve));
  const { call, setSession, close } = await connect(await debuggerUrl(child));
  const { targetId } = await call("Target.createTarget", { url: "about:blank" });
  const { sessionId } = await call("Target.attachToTarget", { targetId, flatten: true });
  setSession(sessionId as string);
  await call("Page.navigate", { url });
  const evaluate = async <T>(expression: string): Promise<T> => {
    const options = { expression, awaitPromise: true, returnByValue: true };
    const { result, exceptionDetails } = (await call("Runtime.evaluate", options)) as {
      result: { value: T };
      exceptionDetails?: { exception?: { description?: string } };
    };
    if (exceptionDetails !== undefined) throw new Error(exceptionDetails.exception?.description ?? expression);
    return result.value;
  };
  const until = async (expression: string): Promise<void> => {
    const deadlineMs = performance.now() + 20_000;
    while (!(await evaluate<boolean>(`Boolean(${expression})`).catch(() => false))) {
      if (performance.now() > deadlineMs) {
        throw new Error(`waited 20 s for ${expression}; the page says: ${await evaluate("document.body.innerText")}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  return {
    evaluate,
    until,
    async [Symbol.asyncDispose]() {
      close();
      // Its children write into the profile until they end, too: the whole group goes.
      process.kill(-child.pid!, "SIGKILL");
      await exited;
      rmSync(profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
    },
  };
}
