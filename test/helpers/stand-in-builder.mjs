/**
 * Speaks the documented command line of programs that need a GPU, for tests of what runs them: `trtllm-build`, a
 * checkpoint's converter, `nvidia-smi`. What they make are a few bytes under the names of the real files.
 *
 *   node stand-in-builder.mjs convert|build|nvidia-smi <the program's own arguments>
 *
 * STAND_IN_DIARY: file that gets a line for each run. STAND_IN_VERSION, STAND_IN_GPU: what they say. STAND_IN_GATE: a
 * build waits until this file exists. STAND_IN_FAULT: exit | incomplete.
 */
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const { env } = process;
const [program, ...argv] = process.argv.slice(2);

if (program === "nvidia-smi") {
  process.stdout.write(`${env.STAND_IN_GPU ?? "NVIDIA H100 80GB HBM3, 9.0"}\n`);
  process.exit(0);
}
if (argv[0] === "--version") {
  // trtllm-build has no such flag, and logs its version when it is imported.
  process.stdout.write(`[TensorRT-LLM] TensorRT-LLM version: ${env.STAND_IN_VERSION ?? "1.2.0"}\n`);
  process.stderr.write("trtllm-build: error: unrecognized arguments: --version\n");
  process.exit(2);
}

const flags = new Map();
for (let i = 0; i < argv.length; i += 2) flags.set(argv[i], argv[i + 1]);
const into = flags.get("--output_dir");
const isBuild = program === "build";
const source = flags.get(isBuild ? "--checkpoint_dir" : "--model_dir");
const config = JSON.parse(readFileSync(join(source, "config.json"), "utf8"));
appendFileSync(env.STAND_IN_DIARY, `${program} ${process.pid}\n`);
process.stdout.write(`${program}s ${source}\n`);
writeFileSync(join(into, isBuild ? "rank0.engine" : "rank0.safetensors"), "cut");
while (isBuild && env.STAND_IN_GATE !== undefined && !existsSync(env.STAND_IN_GATE)) {
  await new Promise((done) => setTimeout(done, 10));
}
if (isBuild && env.STAND_IN_FAULT === "exit") {
  process.stderr.write("no kernel image for this GPU\n");
  process.exit(1);
}
const numRanks = isBuild ? config.numRanks : flags.get("--tp_size") * flags.get("--pp_size");
if (isBuild && Number(flags.get("--workers")) !== numRanks) process.exit(3);
for (let rank = 0; rank < numRanks; rank++) {
  if (env.STAND_IN_FAULT === "incomplete" && isBuild) break;
  writeFileSync(join(into, isBuild ? `rank${rank}.engine` : `rank${rank}.safetensors`), `${program} of rank ${rank}\n`);
}
if (env.STAND_IN_FAULT !== "incomplete") writeFileSync(join(into, "config.json"), JSON.stringify({ numRanks }));
