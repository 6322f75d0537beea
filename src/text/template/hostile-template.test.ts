/**
 * Hostile chat templates that try to block the server or exhaust its memory: each ends with an error code before the
 * work is done.
 */
import * as fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import { computedMs } from "../../../test/helpers/computed-ms.js";
import { cases } from "../../../test/helpers/long.js";
import { MillraceError } from "../../core/errors.js";
import { ChatTemplate, type ChatTemplateInput } from "./chat-template.js";
import { TextTemplate } from "./text-template.js";

const USER_HI: ChatTemplateInput = { messages: [{ role: "user", content: "Hi" }], addGenerationPrompt: true };
const TOO_MUCH =
  "expected the model's chat template to end, got one that asks for more work than an input of this size";

/** The text, or the error. */
function outcomeOf(source: string, input = USER_HI): string | MillraceError {
  try {
    return new ChatTemplate(source).render(input);
  } catch (thrown) {
    if (thrown instanceof MillraceError) return thrown;
    throw thrown;
  }
}

const twice = (start: string, next: string, then: string) =>
  `{% set ns = namespace(x=${start}) %}{% for i in range(60) %}{% set ns.x = ${next} %}{% endfor %}${then}`;
/** Builds a text of 2^exponent letters in `ns.x` at almost no cost. */
const long = (exponent: number, then: string) =>
  `{% set ns = namespace(x='a', n=0) %}{% for i in range(${exponent}) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}${then}`;
const often = (body: string, count = 30_000) => `{% for i in range(${count}) %}${body}{% endfor %}`;
const names = (count: number) => Array.from({ length: count }, (_, i) => `a${i}`).join();

const ATTACKS: readonly (readonly [string, string])[] = [
  ["loops in loops", often(often("", 99_999), 99_999)],
  ["a loop over a filtered loop", often("{% for b in range(99999) if b < 0 %}{% endfor %}")],
  ["loops of breaks", often("{% for b in [1] %}{% break %}{% endfor %}", 99_999)],
  [
    "a macro that calls itself twice",
    "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
  ],
  ["a long macro, defined often", often(`{% macro m() %}${"{{ a }}".repeat(20_000)}{% endmacro %}`)],
  ["a macro of many parameters, called often", `{% macro m(${names(20_000)}) %}{% endmacro %}${often("{{ m() }}")}`],
  ["many names, assigned often", `{% set l = range(20000) | list %}${often(`{% set ${names(20_000)} = l %}`)}`],
  ["many names of a loop", `{% set l = range(20000) %}${often(`{% for ${names(20_000)} in [l] %}{% endfor %}`)}`],
  ["many long ranges", often("{% set r = range(100000) %}")],
  [
    "names looked up from deep inside",
    `{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% else %}${often("{{ gone }}", 29_000)}{% endif %}{% endmacro %}{{ m(200) }}`,
  ],
  ["a text, doubled", twice("'ab'", "ns.x + ns.x", "{{ ns.x }}")],
  ["a text, doubled by ~", twice("'ab'", "ns.x ~ ns.x", "{{ ns.x }}")],
  ["a list, doubled", twice("[1, 2]", "ns.x + ns.x", "{{ ns.x | length }}")],
  ["a list in a list, twice", twice("[1]", "[ns.x, ns.x]", "{{ ns.x }}")],
  ["as JSON", twice("{'a': 1}", "{'a': ns.x, 'b': ns.x}", "{{ ns.x | tojson }}")],
  ["as an indented JSON", twice("{'a': 1}", "{'a': ns.x, 'b': ns.x}", "{{ ns.x | tojson(indent=2) }}")],
  ["joined", twice("[1]", "[ns.x, ns.x]", "{{ ns.x | join }}")],
  ["joined with others", twice("[1]", "[ns.x, ns.x]", "{{ ns.x | join(',') }}")],
  ["behind a text", twice("[1]", "[ns.x, ns.x]", "{{ 'a' ~ ns.x }}")],
  ["as a text", twice("[1]", "[ns.x, ns.x]", "{{ ns.x | string }}")],
  ["compared", twice("[1]", "[ns.x, ns.x]", "{{ ns.x == ns.x }}")],
  ["found in a list", twice("[1]", "[ns.x, ns.x]", "{{ ns.x in [ns.x] }}")],
  ["replace of nothing", long(20, "{{ ns.x.replace('', ns.x) }}")],
  ["replace as a filter", long(20, "{{ ns.x | replace('a', ns.x) }}")],
  ["replace, kept and called", long(20, "{% set f = ns.x.replace %}{{ f('', ns.x) }}")],
  ["replace, found by its name", long(20, "{{ ns.x['re' ~ 'place']('', ns.x) }}")],
  ["replace in a dict", long(20, "{% set d = {'f': ns.x.replace} %}{{ d.f('a', ns.x) }}")],
  ["replace behind call", long(20, "{% set f = ns.x.replace %}{% call f('', ns.x) %}{% endcall %}")],
  ["a long search", long(20, "{% set y = ns.x[:500000] ~ 'b' %}{{ ns.x.replace(y, '') }}")],
  ["a long search by in", long(20, "{% set y = ns.x[:500000] ~ 'b' %}{{ y in ns.x }}")],
  ["a long search by split", long(20, "{% set y = ns.x[:500000] ~ 'b' %}{{ ns.x.split(y) }}")],
  ["a width of JSON", "{{ {'a': 1} | tojson(indent=1000000000) }}"],
  ["separators of JSON", long(20, "{{ range(9999) | list | tojson(separators=[ns.x, ns.x]) }}")],
  ["a width of lines", "{{ 'a\\nb' | indent(1000000000) }}"],
  ["a width of many lines", long(16, "{{ ns.x | replace('a', '\\n') | indent(9999, true, true) }}")],
  ["a separator", long(20, "{{ range(9999) | join(ns.x) }}")],
  ["a separator of letters", long(20, "{{ ns.x | join(ns.x) }}")],
  ["letters of a text", long(24, "{{ ns.x[::-1] }}")],
  ["a loop over letters", long(20, "{% for c in ns.x %}{% endfor %}")],
  ["letters in a namespace", long(22, "{% set n = namespace([ns.x]) %}")],
  ["pairs in a namespace", long(22, often("{% set n = namespace([[ns.x ~ i, 1]]) %}"))],
  ["parts of a text", long(22, "{{ ns.x.split('a') | length }}")],
  ["words of a text", long(22, "{{ ns.x.replace('a', 'a ').split() | length }}")],
  ["long keys, read", long(22, often("{{ {}[ns.x ~ i] }}"))],
  ["long keys, written", long(22, often("{% set d = {ns.x ~ i: 1} %}"))],
  ["long keys, looked for", long(22, often("{{ (ns.x ~ i) in {} }}{{ {}.get(ns.x ~ i) }}"))],
  ["long texts, rewritten", long(22, often("{% set y = ns.x | upper %}"))],
  ["long texts, tested", long(22, often("{% if ns.x is lower %}{% endif %}"))],
  [
    "long texts, tested in a list",
    long(22, `{% set m = [{'a': ns.x}] %}${often("{% set y = m | selectattr('a', 'lower') | list %}")}`),
  ],
  ["long texts, stripped", long(22, often("{% set y = ns.x.strip('b') %}"))],
  ["long texts, printed", long(22, often("{{ ns.x }}"))],
  ["long texts, kept", long(22, often("{% set y %}{{ ns.x }}{% endset %}"))],
  ["long texts, compared", long(22, often("{% if ns.x ~ i == ns.x ~ (i + 1) %}{% endif %}"))],
  [
    "long texts, sorted",
    long(
      20,
      "{% set m = namespace(l=[ns.x]) %}{% for i in range(12) %}{% set m.l = m.l + m.l %}{% endfor %}{% set y = m.l | sort %}",
    ),
  ],
  ["a long path", long(20, "{{ [{}, {}, {}, {}, {}, {}, {}, {}, {}, {}] | map(attribute=ns.x) | list | length }}")],
  ["long lists, turned", `{% set l = range(99999) %}${often("{% set r = l | reverse %}{% set s = l[::-1] %}")}`],
  ["long lists, sorted", `{% set l = range(99999) %}${often("{% set r = l | sort %}{% set u = l | unique %}")}`],
  ["long lists, searched", `{% set l = range(99999) %}${often("{% if -1 in l %}{% endif %}")}`],
  [
    "long lists, unpacked",
    `{% macro m() %}{{ varargs }}{% endmacro %}{% set l = range(99999) %}${often("{{ m(*l) }}")}`,
  ],
];

describe("a template that asks for too much", () => {
  test.each(ATTACKS)("%s", (_, source) => {
    const began = computedMs();
    const outcome = outcomeOf(source);
    const tookMs = computedMs() - began;
    expect(outcome).toMatchObject({ code: "template_failed", message: expect.stringContaining(TOO_MUCH) });
    expect(outcome).toHaveProperty("hint", expect.stringContaining("--chat-template"));
    // Takes a tenth of a second on an idle machine; the limit leaves room for busy ones.
    expect(tookMs).toBeLessThan(3000);
  });

  it("is not tried again for each of its properties", () => {
    let numTrials = 0;
    const template = new ChatTemplate(`{{ strftime_now('%Y') }}${often(often("", 99_999), 99_999)}`, {
      now: () => {
        numTrials++;
        return new Date(0);
      },
    });
    expect(() => template.render(USER_HI)).toThrow(TOO_MUCH);
    expect(numTrials).toBe(1);
  });

  it("is one of a task, too", () => {
    const template = new TextTemplate(often(often("", 99_999), 99_999));
    expect(() => template.render({})).toThrow(/more work than an input of this size may take/);
    const joined = new TextTemplate(long(20, "{{ ns.x.join(range(9999)) }}"));
    expect(() => joined.render({})).toThrow(/more work than an input of this size may take/);
  });
});

describe("ends with a code", () => {
  const nested = (count: number) => `{{ ${"(".repeat(count)}1${")".repeat(count)} }}`;

  it.each([
    ["brackets in brackets", nested(50_000), "does not parse: it nests too deeply"],
    ["not, not, not", `{{ ${"not ".repeat(50_000)}1 }}`, "does not parse: it nests too deeply"],
    ["many elifs", `{% if a %}${"{% elif a %}".repeat(20_000)}{% endif %}`, "it nests too deeply"],
    ["many filters", `{{ 'a'${"|trim".repeat(50_000)} }}`, "to render, got: it nests too deeply"],
    ["many terms", `{{ 1${"+1".repeat(100_000)} }}`, "to render, got: it nests too deeply"],
    ["a macro that calls itself", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "it nests too deeply"],
    ["a list, ever deeper", `${twice("[1]", "[ns.x]", "").replace("60", "8000")}{{ ns.x }}`, "it nests too deeply"],
    [
      "a namespace in itself, twice",
      "{% set n = namespace() %}{% set n.a = [n, n] %}{{ n | tojson }}",
      "it nests too deeply",
    ],
    ["a namespace in itself", "{% set n = namespace() %}{% set n.a = n %}{{ n }}", "it nests too deeply"],
    ["a long source", "a".repeat(300_000), "does not parse: expected at most 262144 characters, got 300000"],
    ["long white space", `a${" ".repeat(200_000)}b`, "white space of at most 1000 characters, got 200000 from 1 on"],
    ["a long range", "{{ range(1000000000000) }}", "range() of 1000000000000 numbers is too long"],
    ["a text, many times", "{{ 'a' * 1000000000000 }}", "between StringValue and IntegerValue"],
    ["a large power", "{{ 2 ** 99999 }}", "not a finite real number"],
    ["a format of wide fields", "{{ '%99999999d' % 1 }}", "between StringValue and IntegerValue"],
    ["a method for wide fields", "{{ 'a'.center(1000000000) }}", "not a function"],
    ["a filter for wide fields", "{{ 'a' | center(1000000000) }}", "the filter center is not known"],
    ["a filter for rows", "{{ [1] | batch(1000000000, 'x') }}", "the filter batch is not known"],
    [
      "a long format of times",
      long(20, "{{ strftime_now(ns.x) }}"),
      "a time's format of at most 1000 characters, got 1048576",
    ],
    ["a long refusal", long(20, "{{ raise_exception(ns.x) }}"), `got its refusal: ${"a".repeat(500)}…`],
    [
      "a refusal that is a list",
      twice("[1]", "[ns.x, ns.x]", "{{ raise_exception(ns.x) }}"),
      "a message of type object",
    ],
    ["a list as a width", twice("[1]", "[ns.x, ns.x]", "{{ 'a' | indent(ns.x) }}"), "width must be a number"],
    ["a list as a number", twice("[1]", "[ns.x, ns.x]", "{{ range(ns.x) }}"), "expected numbers in range()"],
    ["lists between operators", twice("[1]", "[ns.x, ns.x]", "{{ ns.x % ns.x }}"), "Unknown operator"],
    ["a negative width", "{{ 'a' | indent(-1000000000) }}", "Invalid count value"],
  ])("%s", (_, source, message) => {
    expect(outcomeOf(source)).toMatchObject({ code: "template_failed", message: expect.stringContaining(message) });
    expect((outcomeOf(source) as MillraceError).message.length).toBeLessThan(700);
  });
});

it("does not print a list that only stands where a text or a number is expected", () => {
  const source = twice("[1]", "[ns.x, ns.x]", "{{ ' a '.strip(ns.x) }}{{ ([ns.x] + [ns.x]) | length }}");
  expect(outcomeOf(source)).toBe("a2");
});

describe("what sound templates do", () => {
  it("may be done to a prompt of a million tokens", () => {
    const source = `{% for m in messages %}{% set c = m.content | trim %}{% if '</think>' in c %}{% set c = c.split('</think>')[-1].lstrip('\\n') %}{% endif %}
{%- if c.startswith('x') and c.endswith('y') %}{% endif %}{{ '<|im_start|>' + m.role + '\\n' + c.replace('\\r\\n', '\\n') + '<|im_end|>\\n' }}{% endfor %}`;
    const content = "four".repeat(1_000_000);
    expect(outcomeOf(source, { messages: [{ role: "user", content }], addGenerationPrompt: false })).toBe(
      `<|im_start|>user\n${content}<|im_end|>\n`,
    );
  });

  it("may be done for each of many messages, and in a loop over those that follow", () => {
    const messages = Array.from({ length: 500 }, () => ({ role: "user", content: "Hi" }));
    const source =
      "{% set ns = namespace(n=0, l=[], t='') %}{% for m in messages %}{% set ns.l = ns.l + [m] %}{% set ns.t = ns.t + m.content %}{% for o in messages[loop.index:] %}{% if o.role == 'tool' %}{% set ns.n = 1 %}{% endif %}{% endfor %}{% endfor %}{{ ns.t | length }}{{ ns.l | length }}";
    expect(outcomeOf(source, { messages, addGenerationPrompt: false })).toBe("1000500");
  });
});

/** Random programs of operations that make large values from small ones. */
const value = fc.constantFrom("ns.a", "ns.b", "ns.c", "'xy'", "[1, 2]", "{'k': ns.a}", "i", "7");
const FORMS = `A + B; A ~ B; [A, B]; {'k': A, 'l': B}; A.replace('', B); A.replace('x', B); A | join(B); A | string; A | tojson
A | tojson(indent=9); A | list; A.split('x'); A[::-1]; A == B; A in B; A | reverse; A | sort; A | unique | list; A.items(); A | upper
A | indent(99); range(999); A.keys() | list; namespace(k=A); namespace([A]); A | length; m(A); A.strip('x'); A.title(); A[B]; A % B; A * B`;
const expression = fc
  .tuple(value, value, fc.constantFrom(...FORMS.split(/; |\n/)))
  .map(([a, b, form]) => form.replaceAll("A", a).replaceAll("B", b));
const assignment = fc
  .tuple(fc.constantFrom("a", "b", "c"), expression)
  .map(([name, given]) => `{% set ns.${name} = ${given} %}`);
const BEGIN = `{% macro m(x) %}{{ x }}{{ x }}{% endmacro %}{% set i = 3 %}{% set ns = namespace(a='x', b=[1], c={'k': 'y'}) %}`;
const program = fc
  .tuple(fc.array(assignment, { minLength: 1, maxLength: 4 }), fc.integer({ min: 1, max: 99_999 }), expression)
  .map(([body, count, last]) => `${BEGIN}${often(body.join(""), count)}{{ ${last} }}`);

test("any such program ends soon, with a text or a code", () => {
  fc.assert(
    fc.property(program, (source) => {
      const began = computedMs();
      const outcome = outcomeOf(source);
      expect(typeof outcome === "string" ? "template_failed" : outcome.code).toBe("template_failed");
      expect(computedMs() - began).toBeLessThan(3000);
    }),
    { numRuns: cases(30, 1000), seed: 7 },
  );
}, 300_000);
