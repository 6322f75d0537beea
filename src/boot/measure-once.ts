/** Measures a fleet once, after a machine's first start. */
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { certificateFilesOf } from "../core/certificate.js";
import { toMillraceError } from "../core/errors.js";
import { ownUrlOf } from "../core/listen.js";
import type { StartStage } from "../core/stages.js";
import type { FleetConfig } from "../fleet/config/schema.js";
import type { Fleet } from "../fleet/fleet.js";
import { runFirstBench } from "./first-bench.js";

/** Waits without a limit: attached servers become ready in their own time. */
async function whenReady(fleet: Fleet): Promise<void> {
  while (!fleet.instances().some(({ state }) => state === "ready")) await wait(1000);
}

/** A failed measurement is logged; the fleet continues to serve. */
export async function measureOnce(
  fleet: Fleet,
  config: FleetConfig,
  state: string,
  startStage: StartStage,
): Promise<void> {
  const stage = startStage("bench");
  const [model] = config.models;
  try {
    await whenReady(fleet);
    const exitCode = await runFirstBench({
      url: ownUrlOf({ host: config.host, port: fleet.port, certificate: certificateFilesOf(config) }),
      modelPath: model!.engine === "millrace" ? model!.model : undefined,
      model: model!.name,
      apiKey: config.apiKeys[0]?.key.reveal(),
      htmlFile: join(state, "report.html"),
      jsonFile: join(state, "report.json"),
    });
    if (exitCode === 0) stage.done(`report in ${join(state, "report.html")} and under ${fleet.url}/report`);
    else stage.note(`not measured: the bench ended with ${exitCode}; the next start tries again`);
  } catch (thrown) {
    stage.note(`not measured: ${toMillraceError(thrown).message}`);
  }
}
