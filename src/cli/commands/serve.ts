/** `millrace serve`, the default command: the server a person starts, which says what it does and how to try it. */
import { Command } from "commander";
import { isLoopback } from "../../core/loopback.js";
import { packageVersion } from "../../core/package-root.js";
import { addFleetOptions, type FleetFlags, isFleet } from "../fleet-flags.js";
import { formatBytes, formatTable } from "../format.js";
import { stagesTo } from "../stages.js";
import { addServerOptions, type ServingInstance, startInstance, stayUntilStopped } from "../start-server.js";

/** @param args as typed: a fleet hands the engine's flags on to its processes */
export function serveCommand(args: readonly string[]): Command {
  const command = new Command("serve").description("Serve a model over HTTP (the default command).");
  return addServerOptions(addFleetOptions(command)).action((flags: FleetFlags, own: Command) =>
    runServe(flags, own, args),
  );
}

async function runServe(flags: FleetFlags, command: Command, args: readonly string[]): Promise<void> {
  process.stderr.write(`millrace ${packageVersion()}\n`);
  if (isFleet(flags)) {
    const { serveFleet } = await import("../serve-fleet.js");
    await serveFleet(flags, command, args);
    return;
  }
  const instance = await startInstance(flags, stagesTo(process.stderr));
  stayUntilStopped(instance, () => process.stderr.write("finishing the running requests; once more to stop at once\n"));
  process.stdout.write(`\n${readyText(instance)}\n`);
  if (!instance.needsApiKey && !isLoopback(flags.host)) {
    process.stderr.write(`\nnote: anybody who can reach ${flags.host} can use this server; --api-key closes it\n`);
  }
}

function readyText(instance: ServingInstance): string {
  const { engine, server, modelNames } = instance;
  const { numKvBlocks, blockSize, kvBytes, kvCacheDtype, numThreads, isa, maxModelLen } = engine.info;
  const rows = [
    ["  ready", `${server.url} (chat page in a browser, OpenAI API under /v1)`],
    [
      "  model",
      `${modelNames.join(", ")}: ${engine.info.architecture}, ${engine.info.weightType}, context ${maxModelLen}`,
    ],
    ["  threads", `${numThreads} (${isa})`],
    ["  KV", `${formatBytes(kvBytes)} of ${kvCacheDtype}: room for ${numKvBlocks * blockSize} tokens`],
  ];
  return `${formatTable(rows)}\n\n  try:\n${curlExample(instance)}`;
}

/** A line that works as it stands, also for models without a chat template. */
function curlExample({ server, modelNames, chatTemplate, needsApiKey }: ServingInstance): string {
  const [model] = modelNames;
  const auth = needsApiKey ? " -H 'authorization: Bearer YOUR_KEY'" : "";
  const body =
    chatTemplate === undefined
      ? { model, prompt: "Once upon a time", max_tokens: 64 }
      : { model, messages: [{ role: "user", content: "Tell me a short story about a fox and a river." }] };
  const path = chatTemplate === undefined ? "completions" : "chat/completions";
  return `  curl ${server.url}/v1/${path} -H 'content-type: application/json'${auth} -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`;
}
