/** Models of a disk that tests make up: a download ends when the test says so. */
import { Hono } from "hono";
import { MillraceError } from "../../src/core/errors.js";
import { listBody } from "../../src/core/list-body.js";
import type { ModelLibrary, PullStatus } from "../../src/core/model-library.js";

interface CannedLibrary {
  readonly library: { -readonly [K in keyof ModelLibrary]: ModelLibrary[K] };
  /** Names asked to be pulled and removed, in order. */
  readonly asked: string[];
  /** Changes what the download says of itself. */
  set(status: Partial<PullStatus>): void;
  /** Ends it. */
  end(state: PullStatus["state"], error?: MillraceError): void;
}

/** @example const { library, end } = cannedLibrary(); end("done"); */
export function cannedLibrary(): CannedLibrary {
  const asked: string[] = [];
  let resolve = () => {};
  const ended = new Promise<void>((settle) => {
    resolve = settle;
  });
  let status: PullStatus = {
    id: "1",
    model: "hf:org/m",
    state: "running",
    file: undefined,
    receivedBytes: 0,
    totalBytes: 0,
    error: undefined,
    startedAtMs: 0,
    endedAtMs: undefined,
  };
  const library: CannedLibrary["library"] = {
    app: new Hono().get("/", (c) => c.json(listBody([]))),
    servable: async () => [],
    pull(name) {
      asked.push(`pull ${name}`);
      return { status: () => status, ended };
    },
    async remove(name) {
      asked.push(`remove ${name}`);
    },
    async hold(name, use) {
      if (name !== "org/m") throw new MillraceError("model_not_found", `expected a model on disk, got ${name}`);
      return await use({ name: "hf:org/m:m.gguf", path: "/cache/m.gguf", neededBytes: 1000, freeBytes: 2000 });
    },
  };
  return {
    library,
    asked,
    set(change) {
      status = { ...status, ...change };
    },
    end(state, error) {
      status = { ...status, state, error };
      resolve();
    },
  };
}
