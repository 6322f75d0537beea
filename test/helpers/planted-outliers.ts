/**
 * A model whose inputs have outliers, as those of large models do: some channels of its norms are scaled up and the
 * weights behind them down.
 */
import { type Channels, channelsOf, MovedScales } from "../../src/compress/channels.js";
import type { OpenModel } from "../../src/model/open-model.js";

/** A power of two, so that the model computes the same in every type. */
const FACTOR = 32;
const EVERY = 61;

const isOfNorm = ({ maker }: Channels): boolean => "norm" in maker;

export function plantOutliers(model: OpenModel, takes = isOfNorm): OpenModel {
  const planted = new MovedScales();
  for (const layer of model.config.layers.keys()) {
    for (const channels of channelsOf(model, layer)) {
      if (!takes(channels)) continue;
      const { count } = channels;
      const isOutlier = (channel: number): boolean => channel % EVERY === (7 * layer + 3) % EVERY;
      planted.move(
        channels,
        Float32Array.from({ length: count }, (_, i) => (isOutlier(i) ? 1 / FACTOR : 1)),
      );
    }
  }
  return planted.applyTo(model);
}
