/** GGUF keys that state which layers have windows, and which have experts. */
import { arr, u32, type WritableValue } from "../../formats/gguf/write.js";
import { factsOf } from "../../model/description/architectures.js";
import { seesAll } from "../../model/description/model-description.js";
import { localLayers, type ServableModel, unservedVariant } from "../../model/description/servable.js";

/**
 * An interval, at which layers have no window, or a list of the layers with one; undefined: the architecture's default.
 */
export function windowPattern(config: ServableModel): WritableValue | undefined {
  const { architecture, layers } = config;
  const isLocal = localLayers(config);
  const hasPeriod = (period: number) => isLocal.every((is, index) => is !== seesAll(index, period));
  if (hasPeriod(factsOf(architecture).windows?.period ?? 0)) return undefined;
  const period = layers.findIndex((_, index) => hasPeriod(index + 1)) + 1;
  return period > 0 ? u32(period) : arr("bool", isLocal);
}

/** Interval at which layers have experts, from the first such layer on. */
export function expertInterval({ architecture, layers }: ServableModel): number {
  if (factsOf(architecture).experts?.hasInterval !== true) return 1;
  const kinds = layers.map(({ feedForward }) => feedForward.kind);
  const first = kinds.indexOf("experts");
  const second = kinds.indexOf("experts", first + 1);
  return second > 0 ? second - first : 1;
}

/** @throws architecture_unsupported if the architecture has no key for this choice of layers with experts */
export function layersWithExperts(config: ServableModel): Record<string, WritableValue> {
  const { architecture, layers } = config;
  const { mayShare = false, hasInterval = false } = factsOf(architecture).experts ?? {};
  const kinds = layers.map(({ feedForward }) => feedForward.kind);
  const first = kinds.indexOf("experts");
  const interval = expertInterval(config);
  const isWritten = kinds.every((kind, index) => (kind === "experts") === (index >= first && seesAll(index, interval)));
  if (!isWritten || (first > 0 && !mayShare)) {
    throw unservedVariant("expected experts in every layer, got some without");
  }
  return {
    ...(first > 0 ? { leading_dense_block_count: u32(first) } : {}),
    ...(hasInterval ? { interleave_moe_layer_step: u32(interval), leading_dense_block_count: u32(first) } : {}),
  };
}
