/** A plan as JSON: every figure, reason and argument. */

import type { Fit } from "../../plan/calibrate.js";
import type { Configuration, Plan } from "../../plan/request.js";
import { jsonText } from "../output/format.js";
import { launchOf } from "./launch-command.js";

function configurationJson(configuration: Configuration): object {
  const { quantization, kv, ...rest } = configuration;
  const { command, env, files, notices } = launchOf(configuration);
  return {
    ...rest,
    quantization: { id: quantization.id, label: quantization.label, gate: quantization.gate },
    kv: { id: kv.id, label: kv.label, evidence: kv.evidence },
    launch: { command, env, ...(files === undefined ? {} : { files }), notices },
  };
}

export function jsonOf(
  { request, maxModelLen, configurations, refusals, nearest, suggestions }: Plan,
  fit: Fit | undefined,
): string {
  const report = {
    request,
    ...(fit === undefined ? {} : { calibration: fit }),
    maxModelLen,
    configurations: configurations.map(configurationJson),
    refusals,
    nearest,
    suggestions,
  };
  return jsonText(report, 2);
}
