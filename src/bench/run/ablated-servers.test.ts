import { expect, test, vi } from "vitest";
import { ABLATED_ENGINES, type AblatedEngineName } from "../ablation/engines/index.js";
import { flagsOf, HALF, type Layers, VANILLA, variantsOf } from "../ablation/variants.js";
import type { ServerShape } from "../workload/scenarios.js";
import { ablatedServer } from "./ablated-servers.js";

// With the layers that need a GPU.
vi.mock("../ablation/engines/ablated-engine.js", () => ({ hasAccelerator: () => true }));

const ENGINES = Object.keys(ABLATED_ENGINES) as AblatedEngineName[];

function commandsOf(engine: AblatedEngineName, shape: ServerShape) {
  const { foundation, optimisations, speculation } = ABLATED_ENGINES[engine];
  const layers: Layers = { foundation, optimisations: optimisations(speculation), alternatives: [] };
  return variantsOf(layers).map((variant) => {
    const { command } = ablatedServer(engine, {
      name: variant.name,
      modelPath: "model",
      modelName: "model",
      numThreads: 2,
      kvBytesPerToken: 100,
      layers: variant.layers.map(({ name }) => name),
      speculation,
      program: undefined,
      flagsFor: (size) => flagsOf(variant, layers, size),
    });
    return { name: variant.name, words: command(8000, shape).join(" ") };
  });
}

test("every engine starts its variants with flags of its own, and drafts only where they are a layer", () => {
  for (const engine of ENGINES) {
    const commands = commandsOf(engine, { seats: 4, maxModelLen: 512, kvTokens: 2048 });
    // The half has fewer threads, for which some engines have no flag.
    const distinct = commands.filter(({ name }) => name !== HALF).map(({ words }) => words);
    expect(new Set(distinct).size, engine).toBe(distinct.length);
    for (const { name, words } of commands) {
      const hasDrafts = /ngram|NGRAM|"method":"auto"/.test(words);
      expect(hasDrafts, `${engine}: ${name}`).toBe(/speculation/.test(name) ? !/but/.test(name) : /all/.test(name));
    }
    expect(commands.map(({ name }) => name).filter((name) => name === VANILLA)).toHaveLength(1);
  }
});

test("where memory is scarce, all variants have the same, and llama-server no more slots than it holds", () => {
  const shape = { seats: 48, maxModelLen: 1024, kvTokens: 4096 };
  const last = (words: string, flag: string) => Number(words.split(` ${flag} `).at(-1)!.split(" ")[0]);
  const BYTES = shape.kvTokens * 100;
  for (const engine of ENGINES) {
    for (const { name, words } of commandsOf(engine, shape)) {
      const about = `${engine}: ${name}`;
      if (engine === "llama-server") {
        // One more slot would not fit.
        const width = words.includes("-ctk q8_0") ? 49 / 64 : 1;
        const [numSlots, numTokens] = [last(words, "-np"), last(words, "-c")];
        expect(numTokens / numSlots, about).toBe(shape.maxModelLen);
        expect(numTokens * width, about).toBeLessThanOrEqual(shape.kvTokens);
        expect((numTokens + shape.maxModelLen) * width, about).toBeGreaterThan(shape.kvTokens);
      } else if (engine === "sglang") {
        const width = words.includes("fp8_e4m3") ? 0.5 : 1;
        expect(last(words, "--max-total-tokens") * width, about).toBe(shape.kvTokens);
      } else {
        const spare = engine === "vllm" ? 256 * 100 : 0;
        expect(last(words, "--kv-cache-memory-bytes"), about).toBe(BYTES + spare);
      }
    }
  }
});
