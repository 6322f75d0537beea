import { expect, test } from "vitest";
import { ABLATED_ENGINES, type AblatedEngineName } from "../ablation/engines/index.js";
import { flagsOf, HALF, type Layers, VANILLA, variantsOf } from "../ablation/variants.js";
import { ablatedServer } from "./ablated-servers.js";

const shape = { seats: 4, maxModelLen: 512, kvTokens: 2048 };

test("every engine starts its variants with flags of its own, and drafts only where they are a layer", () => {
  for (const engine of Object.keys(ABLATED_ENGINES) as AblatedEngineName[]) {
    const { foundation, optimisations, speculation } = ABLATED_ENGINES[engine];
    const layers: Layers = { foundation, optimisations: optimisations(speculation), alternatives: [] };
    const commands = variantsOf(layers).map((variant) => {
      const { command } = ablatedServer(engine, {
        name: variant.name,
        modelPath: "model",
        numThreads: 2,
        kvBytesPerToken: 100,
        layers: variant.layers.map(({ name }) => name),
        speculation,
        program: undefined,
        flagsFor: (size) => flagsOf(variant, layers, size),
      });
      return { name: variant.name, words: command(8000, shape).join(" ") };
    });
    // The half has fewer threads, which are no flag in every engine.
    const distinct = commands.filter(({ name }) => name !== HALF).map(({ words }) => words);
    expect(new Set(distinct).size, engine).toBe(distinct.length);
    for (const { name, words } of commands) {
      const hasDrafts = /ngram|NGRAM|"method":"auto"/.test(words);
      expect(hasDrafts, `${engine}: ${name}`).toBe(/speculation/.test(name) ? !/but/.test(name) : /all/.test(name));
    }
    expect(commands.map(({ name }) => name).filter((name) => name === VANILLA)).toHaveLength(1);
  }
});
