/** Renders a model's chat template (Jinja) like transformers; the server validates requests before rendering. */

import { Environment } from "@huggingface/jinja";
import { MillraceError } from "../../core/errors.js";
import { isPlainObject } from "../../core/is-plain-object.js";
import type { GgufMetadata } from "../../formats/gguf/types.js";
import { takesMetadata } from "./calls-as-metadata.js";
import { JinjaInterpreter } from "./jinja-interpreter.js";
import type { NumberText, Value } from "./jinja-values.js";
import { withNumbers } from "./number-marks.js";
import { parseTemplate, reasonOf } from "./parse-template.js";
import { type ChatMessage, type Needs, prepareMessages } from "./prepare-messages.js";
import { range } from "./range.js";
import { OverBudget, RenderBudget } from "./render-budget.js";
import { strftime } from "./strftime.js";
import { TemplateRefusal, toTemplateError } from "./template-error.js";
import { TOOLS_PLACES, type ToolsPlace, withToolsAt } from "./tools-place.js";

export interface ChatTemplateOptions {
  readonly bosToken?: string | undefined;
  readonly eosToken?: string | undefined;
  readonly unkToken?: string | undefined;
  readonly padToken?: string | undefined;
  /** A separate template for conversations with tools. */
  readonly toolSource?: string | undefined;
  /** The clock of `strftime_now`. */
  readonly now?: () => Date;
}

export interface ChatTemplateInput {
  readonly messages: readonly ChatMessage[];
  /** In OpenAI's form: `{ type: "function", function: { name, description, parameters } }`. */
  readonly tools?: readonly unknown[] | undefined;
  /** Whether the prompt ends with the start of the assistant's answer. */
  readonly addGenerationPrompt: boolean;
  /** Further variables for the template, such as `enable_thinking`; they cannot replace the ones above. */
  readonly kwargs?: Readonly<Record<string, unknown>> | undefined;
}

/** @example new ChatTemplate(source, { bosToken: "<s>" }).render({ messages, addGenerationPrompt: true }) */
export class ChatTemplate {
  /** The template's text, or the texts of both templates. */
  readonly source: string;
  /** The template's text for conversations without tools. */
  readonly plainSource: string;
  /** The template is parsed at its first use, so that a faulty one only affects requests that use it. */
  readonly #makeForTools: (() => ChatTemplate) | undefined;
  #forTools: ChatTemplate | undefined;
  readonly #program: ReturnType<typeof parseTemplate>;
  readonly #globals: Readonly<Record<string, unknown>>;
  #needs: Needs | undefined;
  #needsDescriptions: boolean | undefined;
  /** null: the template prints no tools. */
  #toolsPlace: ToolsPlace | null | undefined;

  constructor(source: string, options: ChatTemplateOptions = {}) {
    const { toolSource, ...own } = options;
    this.source = source + (toolSource ?? "");
    this.plainSource = source;
    this.#makeForTools = toolSource === undefined ? undefined : () => new ChatTemplate(toolSource, own);
    this.#globals = makeGlobals(options);
    try {
      this.#program = parseTemplate(source.replace(/\r\n?/g, "\n"), { lstrip_blocks: true, trim_blocks: true });
    } catch (thrown) {
      throw new MillraceError(
        "template_failed",
        `expected a Jinja chat template, got one that does not parse: ${reasonOf(thrown)}`,
        {
          hint: "Give a chat template that works, or use the completions endpoint, which needs none.",
          cause: thrown,
        },
      );
    }
  }

  /** Whether the template prints the request's tools. */
  get takesTools(): boolean {
    return this.#toolTemplate().#placeOfTools() !== null;
  }

  /** Whether the template prints the calls of earlier messages. */
  get printsCalls(): boolean {
    return this.#toolTemplate().#readNeeds().printsCalls;
  }

  render(given: ChatTemplateInput): string {
    if (given.tools !== undefined && this.#makeForTools !== undefined) return this.#toolTemplate().render(given);
    const needs = this.#readNeeds();
    const numbers = new Map<string, NumberText>();
    const input = given.tools === undefined ? given : withToolsAt(this.#placeOfTools() ?? "variable", given);
    const messages = prepareMessages(input.messages, needs, numbers);
    try {
      const text = this.#renderRaw({ ...input, messages, tools: this.#describedTools(input.tools) }, numbers);
      return withNumbers(text, numbers);
    } catch (thrown) {
      throw toTemplateError(thrown);
    }
  }

  #readNeeds(): Needs {
    try {
      this.#needs ??= this.#probe();
      return this.#needs;
    } catch (thrown) {
      throw toTemplateError(thrown);
    }
  }

  /** Some templates fail on a function without a description, which is optional. */
  #describedTools(tools: readonly unknown[] | undefined): readonly unknown[] | undefined {
    const isBare = (tool: unknown) =>
      isPlainObject(tool) && isPlainObject(tool.function) && tool.function.description === undefined;
    if (tools === undefined || !tools.some(isBare)) return tools;
    this.#needsDescriptions ??= !this.#printsTool({}) && this.#printsTool({ description: "" });
    if (!this.#needsDescriptions) return tools;
    return tools.map((tool) =>
      isPlainObject(tool) && isPlainObject(tool.function)
        ? { ...tool, function: { description: "", ...tool.function } }
        : tool,
    );
  }

  #toolTemplate(): ChatTemplate {
    this.#forTools ??= this.#makeForTools?.();
    return this.#forTools ?? this;
  }

  /** A template that reads such a variable, but prints no trial tools, may still print other tools. */
  #placeOfTools(): ToolsPlace | null {
    if (this.#toolsPlace !== undefined) return this.#toolsPlace;
    try {
      const place = TOOLS_PLACES.find((each) => this.#printsTool(TRIAL_TOOL.function, each));
      this.#toolsPlace = place ?? (/\btools\b/.test(this.source) ? "variable" : null);
      return this.#toolsPlace;
    } catch (thrown) {
      throw toTemplateError(thrown);
    }
  }

  #printsTool(fields: object, place: ToolsPlace = "variable"): boolean {
    const tools = [{ type: "function", function: { parameters: { type: "object" }, ...fields, name: NEEDLE } }];
    const messages = [{ role: "user", content: "Hi" }];
    try {
      return this.#renderRaw(withToolsAt(place, { messages, tools, addGenerationPrompt: false })).includes(NEEDLE);
    } catch (thrown) {
      return refused(thrown);
    }
  }

  #renderRaw(input: ChatTemplateInput, numbers: ReadonlyMap<string, NumberText> = new Map()): string {
    const variables: Record<string, unknown> = {
      ...this.#globals,
      ...input.kwargs,
      messages: input.messages,
      // An absent value is `none`, not undefined, as in transformers.
      tools: input.tools ?? null,
      documents: input.kwargs?.documents ?? null,
      add_generation_prompt: input.addGenerationPrompt,
    };
    const environment = new Environment();
    for (const [name, value] of Object.entries(variables)) environment.set(name, value);
    const { messages, tools, kwargs } = input;
    const interpreter = new JinjaInterpreter(environment, new RenderBudget({ messages, tools, kwargs }));
    if (numbers.size > 0)
      interpreter.restoreNumbers(environment.lookupVariable("messages") as unknown as Value, numbers);
    return String(interpreter.run(this.#program).value);
  }

  /** Renders trial messages to find the properties of the template that change how messages are passed to it. */
  #probe(): Needs {
    const needle = NEEDLE;
    const printed = (messages: readonly ChatMessage[], tools?: readonly unknown[]): string => {
      try {
        return this.#renderRaw({ messages, tools, addGenerationPrompt: false });
      } catch (thrown) {
        return refused(thrown) || "";
      }
    };
    const prints = (...messages: readonly ChatMessage[]): boolean => printed(messages).includes(needle);
    const asks = (content: unknown) => ({ role: "user", content }) as ChatMessage;
    const part = { type: "text", text: needle };
    const takesText = prints(asks(needle));
    const takesParts = !takesText && prints(asks([part]));
    // Compares two texts as one text and as parts: a template that prints the list itself also prints its members'
    // names.
    const takesEither = (before: readonly ChatMessage[], tools?: readonly unknown[]): boolean => {
      const [asText, asParts] = [needle + needle, [part, part]].map((content) =>
        printed([...before, asks(content)], tools),
      );
      const count = (text: string, what: string | RegExp): number => text.split(what).length;
      // The template refuses for another reason, as some do with system messages.
      if (!asText!.includes(needle)) return true;
      const name = /["']type\\*["']/;
      return count(asParts!, needle) === count(asText!, needle) && count(asParts!, name) <= count(asText!, name);
    };
    // Llama 3.2's template puts its tools into the first question, which must be a text; system messages change that.
    const system = { role: "system", content: "Hi" };
    const joinsParts =
      takesText && [undefined, [TRIAL_TOOL]].every((tools) => takesEither([], tools) && takesEither([system], tools));
    const hi = asks(takesParts ? [{ type: "text", text: "Hi" }] : "Hi");
    // Kimi K2's template prints the id, which names the function.
    const named = [
      { id: "call00001", name: needle },
      { id: needle, name: "f" },
    ];
    const withCall = (content: null | "", args: unknown, tools?: readonly unknown[]): string | undefined =>
      named
        .map(({ id, name }) => [{ id, type: "function", function: { name, arguments: args } }])
        .map((tool_calls) => printed([hi, { role: "assistant", content, tool_calls }], tools))
        .find((text) => text.includes(needle));
    const canPrint = (args: unknown, tools?: readonly unknown[]): boolean =>
      (withCall("", args, tools) ?? withCall(null, args, tools)) !== undefined;
    const takesObject = canPrint({});
    const takesArgumentText = !takesObject && canPrint("{}");
    const args = takesArgumentText ? "{}" : {};
    const withEmpty = withCall("", args);
    const withNone = withCall(null, args);
    const hasThinking = readsThinking(this.plainSource);
    const isGlm4 = takesMetadata(this.plainSource);
    return {
      takesMetadata: isGlm4,
      hasThinking,
      isHarmony: hasThinking && this.plainSource.includes("<|channel|>"),
      // Some templates fail where a conversation has calls and no tools.
      printsCalls:
        isGlm4 || takesObject || takesArgumentText || canPrint({}, [TRIAL_TOOL]) || canPrint("{}", [TRIAL_TOOL]),
      takesParts,
      joinsParts,
      takesArgumentText,
      takesNoContent: withNone !== undefined && (withEmpty === undefined || withNone.length < withEmpty.length),
      refusesNoContent: withNone === undefined && withEmpty !== undefined,
    };
  }
}

/** A text for trial messages that no template contains. */
const NEEDLE = "needle-8d1f";

/** A tool with every field that a template may read. */
const TRIAL_TOOL = {
  type: "function",
  function: {
    name: "f",
    description: "f",
    parameters: { type: "object", properties: { x: { type: "string", description: "x" } }, required: ["x"] },
  },
};

/** Whether the template reads a message's reasoning as `thinking`, as Harmony's does. */
const readsThinking = (source: string): boolean =>
  /\bmessage(?:\.thinking\b|\[["']thinking["']\])/.test(source) && !source.includes("reasoning_content");

/** A failed trial counts as false. A template that exceeds its budget is not tried again. */
function refused(thrown: unknown): false {
  if (thrown instanceof OverBudget) throw thrown;
  return false;
}

/**
 * The template of a GGUF file with the file's special tokens; undefined if the file has none.
 *
 * @param fallback special tokens for a file without them in its metadata: the tokenizer may still know them
 */
export function readChatTemplate(
  metadata: GgufMetadata,
  fallback: Pick<ChatTemplateOptions, "bosToken" | "eosToken"> = {},
): ChatTemplate | undefined {
  const source = metadata.string("tokenizer.chat_template");
  if (source === undefined) return undefined;
  const texts = metadata.strings("tokenizer.ggml.tokens");
  const textOf = (name: string): string | undefined => {
    const id = metadata.number(`tokenizer.ggml.${name}_token_id`);
    return id === undefined ? undefined : texts?.[id];
  };
  return new ChatTemplate(source, {
    bosToken: textOf("bos") ?? fallback.bosToken,
    eosToken: textOf("eos") ?? fallback.eosToken,
    unkToken: textOf("unknown"),
    padToken: textOf("padding"),
    toolSource: metadata.string("tokenizer.chat_template.tool_use"),
  });
}

function makeGlobals(options: ChatTemplateOptions): Record<string, unknown> {
  const now = options.now ?? (() => new Date());
  const globals: Record<string, unknown> = {
    true: true,
    True: true,
    false: false,
    False: false,
    none: null,
    None: null,
    range,
    bos_token: options.bosToken,
    eos_token: options.eosToken,
    unk_token: options.unkToken,
    pad_token: options.padToken,
    strftime_now: (format: string) => strftime(now(), format),
    raise_exception: (message: unknown) => {
      // The message would print other values whole, however large.
      throw new TemplateRefusal(typeof message === "string" ? message : `a message of type ${typeof message}`);
    },
  };
  for (const [name, value] of Object.entries(globals)) if (value === undefined) delete globals[name];
  return globals;
}
