/**
 * Trial texts for a tokenizer with expressions of unbounded time: the texts that a process encodes on its own thread
 * for every request. The tokenizer must first finish them on a thread that can be ended. The long runs among them
 * reveal the usual expressions that never end before a request does.
 */
import { TOOL_CALL_FORMATS, toolCallFormat } from "./answer/call-formats.js";
import { REASONING_MARKERS } from "./answer/reasoning.js";
import { LONG_PROBE, PROBE, RUNS } from "./tokenizer/probes.js";

const CALL_MARKERS = TOOL_CALL_FORMATS.flatMap((name) => toolCallFormat(name, "")?.markers ?? []);

export const TRIAL_TEXTS: readonly string[] = [PROBE, LONG_PROBE, ...RUNS, ...REASONING_MARKERS, ...CALL_MARKERS];
