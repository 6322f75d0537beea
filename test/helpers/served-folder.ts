/** The HTTP application in front of a real model's folder, all in this thread. */

import type { ActivationDtype } from "../../src/backend/backend.js";
import { createCpuBackend } from "../../src/backend/cpu/cpu-backend.js";
import { checkRequest } from "../../src/engine/admission.js";
import type { Engine } from "../../src/engine/api/engine.js";
import { DEFAULT_ENGINE_OPTIONS } from "../../src/engine/api/options.js";
import { EngineCore } from "../../src/engine/engine-core.js";
import { openModel } from "../../src/model/open-model.js";
import { createApp } from "../../src/serve/app.js";
import { loadTextSide } from "../../src/text/text-side.js";
import { fakeAppOptions } from "./fake-server.js";

type Post = <T>(path: string, body: object) => Promise<{ readonly status: number; readonly body: T }>;

export interface Served {
  readonly post: Post;
  close(): void;
}

export function posting(app: ReturnType<typeof createApp>): Post {
  return async <T>(path: string, body: object) => {
    const headers = { "content-type": "application/json" };
    const response = await app.request(path, { method: "POST", headers, body: JSON.stringify(body) });
    return { status: response.status, body: (await response.json()) as T };
  };
}

/**
 * The HTTP application in front of an engine in this thread, which computes a request when it comes.
 * @param activationDtype absent: activations are not rounded
 */
export async function serve(folder: string, activationDtype: ActivationDtype = "f32"): Promise<Served> {
  const backend = createCpuBackend({ numThreads: 2, activationDtype });
  const options = { ...DEFAULT_ENGINE_OPTIONS, modelPath: folder, numThreads: 2 };
  const core = await EngineCore.create(openModel(folder), options, backend);
  const { tokenizer, embeddingPrompts } = await loadTextSide(folder);
  const { options: fake } = fakeAppOptions();
  let numRequests = 0;
  const listeners = new Map<number, Parameters<Engine["submit"]>[1]>();
  let isTurning = false;
  const turn = async () => {
    while (core.hasWork) {
      for (const { requestId, output } of await core.step()) listeners.get(requestId)?.onOutput(output);
    }
    isTurning = false;
  };
  const engine = Object.assign(Object.create(fake.engine) as Engine, {
    info: core.info,
    submit(request: Parameters<Engine["submit"]>[0], listener: Parameters<Engine["submit"]>[1]) {
      checkRequest(request, core.info);
      const id = numRequests++;
      listeners.set(id, listener);
      core.add(id, request);
      if (!isTurning) queueMicrotask(() => void turn());
      isTurning = true;
      return { abort: () => core.abort(id) };
    },
  });
  const app = createApp({ ...fake, engine, tokenizer, embeddingPrompts, chatTemplate: undefined, modelNames: ["m"] });
  return { post: posting(app), close: () => backend.destroy() };
}
