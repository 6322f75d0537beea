import { expect, test, vi } from "vitest";
import { tempTree } from "../../../test/scripts/temp-tree.js";
import { silentStages } from "../../core/stages.js";
import { parseConfig } from "../../fleet/config/read-config.js";
import { machineFor } from "./fleet-machine.js";

test("while requests are served, nothing is measured: an unknown split is one instance", async () => {
  vi.stubEnv("MILLRACE_CACHE", tempTree({}));
  const config = parseConfig("models: [{ name: m, model: models/mill-base.gguf, instances: auto }]", "x", {});
  const { splits } = await machineFor(config, silentStages, { isServing: true });
  vi.unstubAllEnvs();
  expect(splits.get("m")?.instances).toBe(1);
});
