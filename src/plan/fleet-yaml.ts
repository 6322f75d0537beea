/** Writes a configuration as a millrace.yaml, with its reasons as comments. */
import { stringify } from "yaml";
import { machineLabel } from "./hardware.js";
import type { Configuration, Plan } from "./request.js";
import { devicesOf } from "./sharing.js";
import { warningsOf } from "./warnings.js";

/** @example kebabCase("maxNumSeqs") // "max-num-seqs" */
function kebabCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

const MAX_COMMENT = 116;

/**
 * Comment lines of readable length. Texts quote a model's files, so line breaks in them must stay inside the comment.
 */
function comment(text: string): string {
  const lines: string[] = [];
  for (const word of text.split(/[\s\p{Cc}]+/u)) {
    const line = lines.at(-1);
    if (line === undefined || line.length + word.length >= MAX_COMMENT)
      lines.push(`${line === undefined ? "#" : "#  "} ${word}`);
    else lines[lines.length - 1] = `${line} ${word}`;
  }
  return lines.join("\n");
}

/** The model's entry, in the order of the file's documentation. */
function modelEntry(plan: Plan, configuration: Configuration): object {
  const { engine, options, extraArgs, instances } = configuration;
  const { model, servedModelName, ...others } = options;
  const { machine } = plan.request;
  // Devices of one host: a pipeline's hosts are alike.
  const perInstance = devicesOf({ ...configuration, pipelineParallel: 1 });
  const used = Array.from({ length: instances * perInstance }, (_, i) => i);
  return {
    name: servedModelName,
    engine,
    model,
    options: Object.fromEntries(
      Object.entries(others).map(([name, value]) => [
        kebabCase(name),
        name === "kvCacheMemoryBytes" ? `${Math.floor((value as number) / 2 ** 20)}MiB` : value,
      ]),
    ),
    ...(extraArgs.length === 0 ? {} : { args: extraArgs }),
    instances,
    ...(machine.kind === "gpu" ? { gpus: used, "gpus-per-instance": perInstance } : {}),
  };
}

/** @param notes further comment lines at the top */
export function yamlOf(plan: Plan, configuration: Configuration, notes: readonly string[] = []): string {
  const { request } = plan;
  const head = [
    `${request.model.name} on ${machineLabel(request.machine)}, as millrace plan chose it.`,
    ...notes,
    ...warningsOf(request, configuration).map((warning) => `WARNING: ${warning}.`),
    ...configuration.choices.map(({ about, choice, because }) => `${about}: ${choice}. ${because}.`),
    ...configuration.needs.map((need) => `needs ${need}`),
  ];
  const body = stringify({ models: [modelEntry(plan, configuration)] }, { lineWidth: 0 });
  return `${head.map(comment).join("\n")}\n${body}`;
}
