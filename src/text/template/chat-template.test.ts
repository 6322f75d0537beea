import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { fixturesDir } from "../../../test/helpers/fixtures.js";
import { MillraceError } from "../../core/errors.js";
import { Metadata } from "../../formats/gguf/metadata.js";
import type { GgufValue } from "../../formats/gguf/types.js";
import { ChatTemplate, type ChatTemplateInput, readChatTemplate } from "./chat-template.js";

/**
 * The expected texts are jinja2's with transformers' settings, for published templates (which this repository does not
 * contain).
 */
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
const root = fixturesDir();
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

describe.skipIf(!isPresent)("published templates render as in transformers (needs fixtures/templates)", () => {
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

/** The expected texts are those of jinja2 3.1. */
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

  it("find nothing under keys of another type, such as a schema's type that is left out", () => {
    const source =
      "{{ {'a': 1}[x.y] is defined }} {{ {'a': 1}[none] }} {{ [1, 2][none] is defined }} {{ {'a': 1}[['a']] is defined }} " +
      "{{ {'a': 1}[7] is defined }} {{ 5[3] is defined }} {{ [1, 2][1] }}{{ 'ab'[-1] }}";
    expect(render(source, { x: {} })).toBe("False  False False False False 2b");
    expect(() => render("{{ missing[none] }}")).toThrow();
  });

  it("of a dict take precedence over keys of the same names", () => {
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

  it("passes the special tokens, the clock and kwargs, which cannot replace the conversation", () => {
    const template = new ChatTemplate(
      "{{ bos_token }}{{ strftime_now('%d %b %Y %H:%M') }}{{ level }}{{ messages | length }}{{ eos_token is defined }}",
      { bosToken: "<s>", now: () => new Date(2024, 6, 26, 8, 5) },
    );
    const kwargs = { level: 7, messages: [], bos_token: "<b>" };
    expect(template.render({ ...USER_HI, kwargs })).toBe("<b>26 Jul 2024 08:0571False");
  });

  it.each([
    ["{% for i in [1,2,3] %}a{{i}}{% if i==2 %}{% continue %}{% endif %}b{% endfor %}", "a1ba2a3b"],
    ["{% for i in [1,2,3] %}a{% if i==2 %}{% break %}{% endif %}b{% endfor %}", "aba"],
    ["{% set x=0 %}{% for i in [1,2] %}{{x}}{% set x=i %}{{x}}{% endfor %}{{x}}", "01020"],
    [
      "{% for i in [1,2] %}{% for j in [1,2] %}{% if j==2 %}{% break %}{% endif %}{{i}}{{j}} {% endfor %}{% endfor %}",
      "11 21 ",
    ],
    [
      "{{ '' == false }} {{ 0 == '' }} {{ '1' == 1 }} {{ gone == none }} {{ [] == [] }} {{ 1 == true }}",
      "False False False False True True",
    ],
    [
      "{{ none in [1, none] }} {{ gone in [1] }} {{ {'a': [1]} == {'a': [1.0]} }} {{ {'a': 1} != {'b': 1} }}",
      "True False True True",
    ],
    [
      "{{ [1, 'it', true, none, \"it's\"] }} {{ {'a': 'b\n'} }} {{ none }}",
      `[1, 'it', True, None, "it's"] {'a': 'b\\n'} None`,
    ],
    [
      "{{ 1.0 }} {{ 4 / 2 }} {{ 1.0 | tojson }} {{ [1.0, 2, {'a': [1.0, 2.5], 'b': 1.0}] | tojson }} {{ {'a': 4 / 2} | tojson(indent=1) }}",
      '1.0 2.0 1.0 [1.0, 2, {"a": [1.0, 2.5], "b": 1.0}] {\n "a": 2.0\n}',
    ],
    ["{{ [1.0, true, none, 'a', [1]] | join(', ') }} {{ ['a', 'b'] | join }}", "1.0, True, None, a, [1] ab"],
    ["{{ 'a' ~ true ~ none ~ gone }} {{ [1]|string }} {{ -7 % 3 }} {{ 7 % -3 }}", "aTrueNone [1] 2 -2"],
    [
      "{{ gone|length }} {{ gone|trim }}|{{ ' a '|trim() }}|{% for x in gone %}{% endfor %}{% for c in 'ab' %}{{c}},{% endfor %}",
      "0 |a|a,b,",
    ],
    ["{{ ['string', 'null'] | upper }} {{ 5 | trim }} {{ true | lower }}", "['STRING', 'NULL'] 5 true"],
    [
      "{{ [1, none, 'a'] | map('string') | join(',') }} {{ ['a', 'b'] | map('upper') | list }} {{ [' x '] | map('trim') | first }}|",
      "1,None,a ['A', 'B'] x|",
    ],
    ["{{ \"it's \\\nb\" }}{{ 'a\\.b\\d\\\\ \\x41\\u00e9\\'' }}", "it's ba\\.b\\d\\ Aé'"],
    ["don't \\d {# it's \\d {{ ' #}{% if true %}\\.{% endif %} \\\n{{ '\\q' }}", "don't \\d \\. \\\n\\q"],
    ["{{ {'a': {'b': 1}} ~ '\\d' }} \\d {{{'a': {}}['a'] ~ \"\\q\"}} \\q", "{'a': {'b': 1}}\\d \\d {}\\q \\q"],
    ["{% set x = {'a': {'}}': '%}'}} %}{{ x ~ '\\w' }}'\\w'", "{'a': {'}}': '%}'}}\\w'\\w'"],
    ["{{ '\\0|\\a|\\1011\\18\\777\\U0001f642\\A' }}\\0", "\0|\u0007|A1\u00018\u01ff\u{1f642}\\A\\0"],
    // Seed-OSS looks up in this way how often to reflect on its thinking.
    [
      "{% set t = {1024: 256, 0: 0, 512: 128} %}{% for k, v in t | dictsort %}{% if 100 <= k %}{{ k }}={{ v }} {% endif %}{% endfor %}{{ t[1024] }}",
      "512=128 1024=256 256",
    ],
    [
      "{% set t = {2: 'b', 1: 'a', 'x': [1]} %}{% for k in t %}{{ k }} {% endfor %}{% for k, v in t.items() %}{{ k }}={{ v }} {% endfor %}{{ t }}",
      "2 1 x 2=b 1=a x=[1] {2: 'b', 1: 'a', 'x': [1]}",
    ],
    [
      "{% set t = {1: 'a'} %}{{ 1 in t }} {{ 2 in t }} {{ 'x' not in t }} {{ t.get(1) }} {{ t.get(2) }} {{ t.get(2, 'd') }}",
      "True False True a None d",
    ],
    [
      "{% set t = {10: [{9: 'a'}], 9: {}} %}{{ t | tojson }} {{ [t] | tojson(indent=1) }} {{ t | tojson(sort_keys=true) }} {{ {1: 'a', '1': 'b', 'x': 1.5} | tojson() }}",
      '{"10": [{"9": "a"}], "9": {}} [\n {\n  "10": [\n   {\n    "9": "a"\n   }\n  ],\n  "9": {}\n }\n] {"9": {}, "10": [{"9": "a"}]} {"1": "a", "1": "b", "x": 1.5}',
    ],
    ["{% for k, v in [('a', 1)] %}{{k}}{{v}}{% endfor %}\r\n{% if true %}\r\nb{% endif %}", "a1b"],
  ])("behaves like Python: %s", (source, expected) => {
    expect(new ChatTemplate(source).render(USER_HI)).toBe(expected);
  });

  it.each(["{{ '\\N{BULLET}' }}", "{{ '\\U0011ffff' }}", "{{ '\\U1' }}"])("refuses %s", (source) => {
    expect(errorOf(() => new ChatTemplate(source)).code).toBe("template_failed");
  });

  it("refuses to sort numbers among texts", () => {
    expect(() => new ChatTemplate("{{ {1: 'a', 'x': 'b'} | tojson(sort_keys=true) }}").render(USER_HI)).toThrow(
      /keys of one type/,
    );
  });

  it("refuses to concatenate a string with another type", () => {
    expect(() => new ChatTemplate("{{ 'a' + [1] }}").render(USER_HI)).toThrow(
      /two texts around \+, got StringValue and ArrayValue/,
    );
  });

  const CALL = {
    id: "c",
    type: "function",
    function: { name: "f", arguments: '{"id": 1234567890123456789, "x": 1.0, "n": 2}' },
  };
  const called = [...USER_HI.messages, { role: "assistant", content: "", tool_calls: [CALL] }];

  it("keeps the digits of numbers in calls", () => {
    const source =
      "{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.arguments | tojson }}{{ c.function.arguments.id }}{% endfor %}{% endfor %}";
    const text = new ChatTemplate(source).render({ messages: called, addGenerationPrompt: false });
    expect(text).toBe('{"id": 1234567890123456789, "x": 1.0, "n": 2}1234567890123456789');
    const asNumber = new ChatTemplate(
      '{% set x = messages[1].tool_calls[0].function.arguments.x %}{{ x is string }} {{ x + 1 }} {{ x > 0 }} "{{ x }}"',
    );
    expect(asNumber.render({ messages: called, addGenerationPrompt: false })).toBe('False 2.0 True "1.0"');
  });

  it("keeps a message's calls and content together where thinking is no Harmony's, as in LFM2.5's", () => {
    const source =
      "{% for message in messages %}{{ message.thinking }}|{{ message.content }}|{% for c in message.tool_calls %}{{ c.function.name }},{% endfor %};{% endfor %}";
    const input = {
      messages: [{ role: "assistant", content: "c", reasoning_content: "r", tool_calls: [CALL, CALL] }],
      addGenerationPrompt: false,
    };
    expect(new ChatTemplate(source).render(input)).toBe("r|c|f,f,;");
    expect(new ChatTemplate(`{# <|channel|> #}${source}`).render(input)).toBe("r||f,;||f,;");
  });

  it("passes arguments as text, and no content, if the template requires it", () => {
    const source =
      "{% for m in messages %}{% if m.content is none %}{% for c in m.tool_calls %}{{ 'call ' + c.function.arguments }}{{ c.function.name }}{% endfor %}{% else %}{{ m.content }}{% endif %}{% endfor %}";
    const text = new ChatTemplate(source).render({ messages: called, addGenerationPrompt: false });
    expect(text).toBe(`Hicall ${CALL.function.arguments}f`);
  });

  it("uses the tool template for requests with tools, and parses it only then", () => {
    const template = new ChatTemplate("plain", { toolSource: "tools: {{ tools|length }}" });
    expect([template.render(USER_HI), template.render({ ...USER_HI, tools: [{}] })]).toEqual(["plain", "tools: 1"]);
    const broken = new ChatTemplate("plain", { toolSource: "{% if %}" });
    expect(broken.render(USER_HI)).toBe("plain");
    expect(() => broken.render({ ...USER_HI, tools: [{}] })).toThrow("does not parse");
  });

  it("flattens text parts if the template prints strings", () => {
    const content = [
      { type: "text", text: "a" },
      { type: "text", text: "b" },
    ] as const;
    const input = { messages: [{ role: "user", content }], addGenerationPrompt: false };
    expect(new ChatTemplate(CHATML).render(input)).toBe("<|im_start|>user\na\nb<|im_end|>\n");
    expect(new ChatTemplate(PARTS_ONLY).render(input)).toBe("[a][b]");
  });

  /** Templates of Gemma 3, GLM-4.5 and Mistral Small 3.1 do this. */
  it("leaves it to the template to put a user's parts together if it takes text and parts", () => {
    const either =
      "{% for m in messages %}{% if m.content is string %}<{{ m.content }}>{% else %}<{% for part in m.content %}{{ part.text | trim }}{% endfor %}>{% endif %}{% endfor %}";
    const content = [
      { type: "text", text: "a " },
      { type: "text", text: "b" },
    ] as const;
    const messages = [
      { role: "system", content },
      { role: "user", content },
      { role: "user", content: "c" },
    ];
    expect(new ChatTemplate(either).render({ messages, addGenerationPrompt: false })).toBe("<a \nb><ab><c>");
    // Other templates print a list in Python's form, or none of it.
    const asList = "{% for m in messages %}<{{ m.content | string }}>{% endfor %}";
    expect(new ChatTemplate(asList).render({ messages, addGenerationPrompt: false })).toBe("<a \nb><a \nb><c>");
  });

  const A_AND_B = [
    { type: "text", text: "A" },
    { type: "text", text: "B" },
  ] as const;

  /** Llama 3.2 Vision's template puts its tools into the first question. */
  it.each([
    ["with tools", false],
    ["with tools behind a system message", true],
  ])("joins parts for a template that prints them as Python's list only %s", (_, hasSystem) => {
    const source = `{%- if messages[0].role == 'system' ${hasSystem ? "" : "and false"} %}{%- set seen = true %}{%- set messages = messages[1:] %}{%- endif %}
{%- if tools ${hasSystem ? "and seen" : ""} %}{{- tools | tojson }}<{{ messages[0]['content'] | trim }}>{%- set messages = messages[1:] %}{%- endif %}
{%- for m in messages %}{%- if m.content is string %}<{{ m.content }}>{%- else %}<{%- for part in m.content %}{{ part.text }}{%- endfor %}>{%- endif %}{%- endfor %}`;
    const template = new ChatTemplate(source);
    const messages = [...(hasSystem ? [{ role: "system", content: "S" }] : []), { role: "user", content: A_AND_B }];
    const tools = [{ type: "function", function: { name: "f", description: "", parameters: { type: "object" } } }];
    expect(template.render({ messages, tools, addGenerationPrompt: false })).toBe(
      `[{"type": "function", "function": {"name": "f", "description": "", "parameters": {"type": "object"}}}]<A\nB>`,
    );
    expect(template.render({ messages, addGenerationPrompt: false })).toBe("<A\nB>");
  });

  it("leaves parts to a template that puts them together beside tools and refuses system messages", () => {
    const source =
      "{{ tools | tojson }}{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endif %}{% endfor %}";
    const input = { messages: [{ role: "user", content: A_AND_B }], addGenerationPrompt: false };
    expect(new ChatTemplate(source).render({ ...input, tools: [{ type: "x" }] })).toBe('[{"type": "x"}]AB');
  });

  it("passes of a part its type and its text alone", () => {
    const content = [{ type: "text", text: "a", cache_control: { type: "ephemeral" }, image: "x" }] as const;
    const messages = [{ role: "user", content }];
    const keys = "{% for part in m.content %}{{ part.text }}:{{ part.keys() | join(',') }}{% endfor %}";
    for (const each of [keys, `{% if m.content is string %}{{ m.content }}{% else %}${keys}{% endif %}`]) {
      const template = new ChatTemplate(`{% for m in messages %}${each}{% endfor %}`);
      expect(template.render({ messages, addGenerationPrompt: false })).toBe("a:type,text");
    }
  });

  it("passes parts if the template prints only parts", () => {
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

  it("passes on the message of raise_exception", () => {
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
    "{{ {none: 1} }}",
    "{{ {1: 1, 'a': 2} | dictsort }}",
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
