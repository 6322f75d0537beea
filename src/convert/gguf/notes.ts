/** Differences between a model and llama.cpp's computation of its copy. */
import { type Architecture, factsOf, normalisesInFiles } from "../../model/description/architectures.js";
import { NO_ROPE } from "../../model/description/model-description.js";
import { attentionMixers, firstMixer, type ServableModel } from "../../model/description/servable.js";
import { expertInterval, windowPattern } from "./layer-keys.js";

/** llama.cpp recognises EXAONE 4.0's windows by this number of layers. */
const LAYERS_OF_EXAONE_32B = 64;

/** Whether latent attention's rope has its own magnitude, which llama.cpp also applies to the scores. */
function hasOwnMagnitude(config: ServableModel): boolean {
  const { scaling, factor, attentionFactor } = config.ropes[0] ?? { scaling: "none" };
  const isLatent = firstMixer(config, "latent") !== undefined;
  return isLatent && scaling === "yarn" && Math.abs(attentionFactor! * (1 + 0.1 * Math.log(factor!)) - 1) > 1e-6;
}

/** Differences in llama.cpp's computation that no GGUF key can remove. */
export function notesOf(architecture: Architecture, config: ServableModel): readonly string[] {
  const { ropes, routing } = config;
  const mixers = attentionMixers(config);
  const window = Math.max(...mixers.map((mixer) => mixer.window));
  if (architecture === "mistral" || architecture === "lfm3" || architecture === "opt")
    return ["llama.cpp does not know this architecture: the file is for millrace"];
  const notes: string[] = [];
  const numStoring = mixers.filter(({ keysOf }) => keysOf === undefined).length;
  const { windows, roundsYarnRange, experts } = factsOf(architecture);
  if (window > 0 && windows?.period === 0) {
    notes.push(
      `llama.cpp has no sliding window for ${architecture}: there, prompts of more than ${window} tokens have other answers`,
    );
  }
  if (config.layers.some(({ mixer }) => mixer.kind === "delta" && mixer.headDim !== mixer.valueDim)) {
    notes.push("llama.cpp takes values of recurrent layers to be as wide as keys: the file is for millrace");
  }
  if (expertInterval(config) !== 1) {
    notes.push("llama.cpp expects experts in every layer behind the first that has them: the file is for millrace");
  }
  // llama.cpp reads the keys that normalise and scale experts' weights only for the usual weighing by sigmoid.
  const normalises = normalisesInFiles(experts);
  const isFixed = normalises || experts?.weighedBy === "softmax";
  const hasUnrotated = windows?.areAloneRotated === "ifAny" && mixers.some(({ rope }) => rope === NO_ROPE);
  const differences = {
    "has a window in other layers":
      windowPattern(config)?.type === "array" || (hasUnrotated && windowPattern(config) !== undefined),
    "has no window and a rope in every layer": hasUnrotated && config.layers.length !== LAYERS_OF_EXAONE_32B,
    "gives windows the model's rope base":
      ropes[1] !== undefined && windows?.localRope?.base === undefined && ropes[1].base !== ropes[0]!.base,
    "rounds YaRN's range to whole frequencies": ropes[0]?.scaling === "yarn" && roundsYarnRange === false,
    "takes keys of other layers": mixers.some(
      ({ keysOf, rope }) => keysOf !== undefined && keysOf !== numStoring - (rope === 1 ? 2 : 1),
    ),
    "scales the weights of a token's experts to a sum of one": normalises && !routing.normalises,
    "takes groups of experts by their two largest scores":
      routing.scoring === "softmax" && routing.numUsedGroups < routing.numGroups,
    "has RMS norms, and weights of experts by softmax,": routing.scoring === "sparseMixer",
    "scales scores by a factor of the rope": hasOwnMagnitude(config),
    "does not scale the weights of a token's experts to a sum of one": isFixed && !normalises && routing.normalises,
    "computes GELU by its approximation with a tanh": config.activation === "gelu",
    "leaves out the factor of experts' weights": isFixed && routing.scale !== 1,
  };
  for (const [what, differs] of Object.entries(differences)) {
    if (differs) notes.push(`llama.cpp ${what} for ${architecture}: there, the answers are others`);
  }
  return notes;
}
