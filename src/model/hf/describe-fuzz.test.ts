/** Damaged config.json files: each is refused with a code, or describes a model within the engine's bounds. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, it } from "vitest";
import { fixture } from "../../../test/helpers/fixtures.js";
import { damagedJson } from "../../../test/helpers/json-damage.js";
import { MillraceError } from "../../core/errors.js";
import { JsonObject } from "../../formats/files/json.js";
import { MODEL_LIMITS } from "../description/model-description.js";
import { ropeFrequencies } from "../description/rope.js";
import { attentionMixers, latentMixers } from "../description/servable.js";
import { servableConfig } from "./servable.js";

const folders = ["hf", "hf-encoders"].flatMap((root) => readdirSync(fixture(root)).map((name) => `${root}/${name}`));

it.each(folders)("%s", (name) => {
  const sound: unknown = JSON.parse(readFileSync(join(fixture(name), "config.json"), "utf8"));
  let numAccepted = 0;
  let numRefused = 0;
  fc.assert(
    fc.property(damagedJson(sound), (json) => {
      if (typeof json !== "object" || json === null) return;
      try {
        const config = new JsonObject(json as Record<string, unknown>, "config.json", "");
        const { model } = servableConfig(config, name, { numEmbeddings: 288, hasOutput: true });
        expect(model.layers.length).toSatisfy((count: number) => count >= 1 && count <= MODEL_LIMITS.layers);
        // Of layers that are one part each, the first mixes tokens alone.
        const ffWidth = Math.max(...model.layers.map(({ feedForward }) => feedForward.width));
        const mixer = attentionMixers(model)[0] ?? latentMixers(model)[0]!;
        expect(mixer.numHeads % ("numKvHeads" in mixer ? mixer.numKvHeads : 1)).toBe(0);
        for (const size of [model.width, ffWidth, mixer.headDim, model.contextLength]) {
          expect(size).toSatisfy(
            (value: number) => Number.isInteger(value) && value >= 1 && value <= MODEL_LIMITS.context,
          );
        }
        for (const rope of model.ropes) ropeFrequencies(rope, undefined);
        numAccepted++;
      } catch (thrown) {
        if (!(thrown instanceof MillraceError)) throw thrown;
        expect(thrown.code).toMatch(/^(model_config|architecture_unsupported)$/);
        numRefused++;
      }
    }),
    { seed: 12, numRuns: 500 },
  );
  expect(Math.min(numAccepted, numRefused)).toBeGreaterThan(20);
});
