/** `--model`, which most commands take. */
import { Option } from "commander";

export function modelOption(): Option {
  return new Option(
    "--model <path|hf:org/repo[:file]>",
    "GGUF file, folder with one or with safetensors, or a model of the hub (default: the bundled model)",
  );
}
