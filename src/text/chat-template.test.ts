import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { MillraceError } from "../core/errors.js";
import { Metadata } from "../formats/gguf/metadata.js";
import type { GgufValue } from "../formats/gguf/types.js";
import { ChatTemplate, type ChatTemplateInput, readChatTemplate } from "./chat-template.js";

/** What jinja2 with transformers' settings renders from the published templates (which stay out of this repository). */
interface Expected {
  readonly now: string;
  readonly conversations: Readonly<Record<string, ChatTemplateInput>>;
  readonly templates: readonly {
    readonly file: string;
    readonly sha256: string;
    readonly bosToken?: string;
    readonly eosToken?: string;
    readonly rendered: Readonly<
      Record<string, { readonly text: string } | { readonly error: string; readonly refused: boolean }>
    >;
  }[];
}

const expected = JSON.parse(readFileSync(join(import.meta.dirname, "chat-template.expected.json"), "utf8")) as Expected;
const root = process.env.MILLRACE_FIXTURES ?? resolve(import.meta.dirname, "../../../shared/fixtures");
const folder = join(root, "templates");
const isPresent = existsSync(folder);
if (!isPresent)
  console.warn(`SKIPPED: published chat templates, because ${folder} does not exist (set MILLRACE_FIXTURES)`);

function errorOf(action: () => unknown): MillraceError {
  try {
    action();
  } catch (thrown) {
    if (thrown instanceof MillraceError) return thrown;
    throw thrown;
  }
  throw new Error("expected an error, got none");
}

describe.skipIf(!isPresent)("published templates render as in transformers", () => {
  for (const { file, sha256, rendered, bosToken, eosToken } of expected.templates) {
    it.each(Object.entries(rendered))(`${file}: %s`, (name, outcome) => {
      const source = readFileSync(join(folder, file), "utf8");
      expect(createHash("sha256").update(source).digest("hex")).toBe(sha256);
      const template = new ChatTemplate(source, { bosToken, eosToken, now: () => new Date(expected.now) });
      const render = (): string => template.render(expected.conversations[name]!);
      if ("text" in outcome) {
        expect(render()).toBe(outcome.text);
      } else {
        const error = errorOf(render);
        expect(error.code).toBe("template_failed");
        if (outcome.refused) expect(error.message).toContain(outcome.error);
      }
    });
  }
});

/** What jinja2 3.1 renders. */
describe("methods are Python's", () => {
  const render = (source: string, kwargs: Record<string, unknown> = {}): string =>
    new ChatTemplate(source).render({ messages: [], addGenerationPrompt: false, kwargs });

  it.each([
    ["{{ t.strip('\\n') }}|", "  a b  |"],
    ["{{ t.lstrip('\\n') }}|", "  a b  \n|"],
    ["{{ t.rstrip('\\n') }}|", "\n  a b  |"],
    ["{{ t.strip() }}|", "a b|"],
    ["{{ t.strip(' \\nab') }}|", "|"],
    ["{{ t.strip('\\n').strip(' ').upper() }}|", "A B|"],
  ])("%s", (source, text) => {
    expect(render(source, { t: "\n  a b  \n" })).toBe(text);
  });

  it("a dict's own, whatever its keys are called", () => {
    const d = { items: 1, get: 2, keys: 3, values: 4 };
    expect(render("{% for k, v in d.items() %}{{ k }}={{ v }} {% endfor %}", { d })).toBe(
      "items=1 get=2 keys=3 values=4 ",
    );
    expect(render("{{ d.get('keys') }} {{ d.keys() | length }} {{ d.items }}", { d })).toBe("3 4 1");
    expect(() => render("{{ t.items() }}", { t: "text" })).toThrow("has no method items");
  });
});

const CHATML = `{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}`;
const PARTS_ONLY =
  "{% for m in messages %}{% for part in m.content %}{% if part.type == 'text' %}[{{ part.text }}]{% endif %}{% endfor %}{% endfor %}";
const USER_HI = { messages: [{ role: "user", content: "Hi" }], addGenerationPrompt: true };

describe("ChatTemplate", () => {
  it("renders messages and the generation prompt", () => {
    const template = new ChatTemplate(CHATML);
    expect(template.render(USER_HI)).toBe("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    expect(template.render({ ...USER_HI, addGenerationPrompt: false })).toBe("<|im_start|>user\nHi<|im_end|>\n");
  });

  it("gives the special tokens, the clock and kwargs, which do not replace the conversation", () => {
    const template = new ChatTemplate(
      "{{ bos_token }}{{ strftime_now('%d %b %Y %H:%M') }}{{ level }}{{ messages | length }}{{ eos_token is defined }}",
      { bosToken: "<s>", now: () => new Date(2024, 6, 26, 8, 5) },
    );
    const kwargs = { level: 7, messages: [], bos_token: "<b>" };
    expect(template.render({ ...USER_HI, kwargs })).toBe("<b>26 Jul 2024 08:0571false");
  });

  it("flattens text parts where the template prints strings", () => {
    const content = [
      { type: "text", text: "a" },
      { type: "text", text: "b" },
    ] as const;
    const input = { messages: [{ role: "user", content }], addGenerationPrompt: false };
    expect(new ChatTemplate(CHATML).render(input)).toBe("<|im_start|>user\na\nb<|im_end|>\n");
    expect(new ChatTemplate(PARTS_ONLY).render(input)).toBe("[a][b]");
  });

  it("gives parts where the template prints only parts", () => {
    expect(new ChatTemplate(PARTS_ONLY).render(USER_HI)).toBe("[Hi]");
  });

  it("refuses parts that are not text", () => {
    const messages = JSON.parse('[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]');
    expect(errorOf(() => new ChatTemplate(CHATML).render({ messages, addGenerationPrompt: true })).code).toBe(
      "invalid_parameter",
    );
  });

  it("parses tool call arguments that are JSON objects and leaves others as text", () => {
    const template = new ChatTemplate(
      "{% for c in messages[0].tool_calls %}{{ c.function.arguments | tojson }};{% endfor %}",
    );
    const call = (args: string): unknown => ({ type: "function", function: { name: "f", arguments: args } });
    const toolCalls = [call('{"a":[1,2],"b":"é"}'), call("{broken")];
    const messages = [{ role: "assistant", content: null, tool_calls: toolCalls }];
    expect(template.render({ messages, addGenerationPrompt: false })).toBe('{"a": [1, 2], "b": "é"};"{broken";');
  });

  it("passes on what raise_exception says", () => {
    const template = new ChatTemplate("{{ raise_exception('Only two roles, please') }}");
    const error = errorOf(() => template.render(USER_HI));
    expect(error.code).toBe("template_failed");
    expect(error.message).toContain("Only two roles, please");
    expect(error.param).toBe("messages");
  });

  it.each([
    ["{% for m in messages %}", "parse"],
    ["{{ 'abc }}", "parse"],
    ["{% nonsense %}", "parse"],
  ])("refuses a template that does not parse: %s", (source, word) => {
    const error = errorOf(() => new ChatTemplate(source));
    expect(error.code).toBe("template_failed");
    expect(error.message).toContain(word);
  });

  it.each([
    "{{ messages | unheard_of }}",
    "{{ messages[0].content() }}",
    "{{ range(10 ** 9) }}",
    "{% for i in range(1000000) %}x{% endfor %}",
  ])("reports a template that fails: %s", (source) => {
    expect(errorOf(() => new ChatTemplate(source).render(USER_HI)).code).toBe("template_failed");
  });

  it("reads template and special tokens from GGUF metadata", () => {
    const entries = new Map<string, GgufValue>([
      ["tokenizer.chat_template", "{{ bos_token }}|{{ eos_token }}|{{ range(1, 6, 2) | join }}"],
      ["tokenizer.ggml.tokens", ["<s>", "</s>"]],
      ["tokenizer.ggml.bos_token_id", 0],
      ["tokenizer.ggml.eos_token_id", 1],
    ]);
    expect(readChatTemplate(new Metadata(entries))?.render(USER_HI)).toBe("<s>|</s>|135");
    expect(readChatTemplate(new Metadata(new Map()))).toBeUndefined();
    const plain = new Metadata(new Map([["tokenizer.chat_template", "{{ bos_token }}"]]));
    expect(readChatTemplate(plain, { bosToken: "<s>" })?.render(USER_HI)).toBe("<s>");
  });
});
