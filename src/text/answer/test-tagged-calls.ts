/** Texts of calls with parameters in tags and in Python's notation, each with its parts; and texts without a call. */
import type { ToolCallFormat } from "./call-format.js";
import { lfm2, olmo3 } from "./pythonic.js";
import { glm, minimaxM2, qwen3Coder, seedOss } from "./tagged-parameters.js";

const glm45 = glm("</arg_key>\n<arg_value>");
const glm47 = glm("</arg_key><arg_value>");
export const FORMATS: readonly ToolCallFormat[] = [glm45, glm47, qwen3Coder, seedOss, minimaxM2, olmo3, lfm2];

export const qwenCall = (inner: string) => `<tool_call>\n<function=f>\n${inner}</function>\n</tool_call>`;
export const qwen = (name: string, value: string) => `<parameter=${name}>\n${value}\n</parameter>\n`;

type Example = readonly [name: string, format: ToolCallFormat, text: string, shown: readonly string[]];

export const CALLS: readonly Example[] = [
  [
    "glm's",
    glm45,
    "I look.\n<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>a b</arg_value>\n<arg_key>n</arg_key>\n<arg_value>5</arg_value>\n</tool_call>",
    ["I look.", 'f({"s": "a b", "n": 5})'],
  ],
  [
    "glm's on one line, two of them",
    glm47,
    '<tool_call>f<arg_key>o</arg_key><arg_value>{"a": 1}</arg_value></tool_call>\n<tool_call>g</tool_call>',
    ['f({"o": {"a": 1}})', "g({})"],
  ],
  ["glm's without parameters", glm45, "<tool_call>f\n</tool_call> ok", ["f({})", "ok"]],
  [
    "qwen's",
    qwen3Coder,
    qwenCall(qwen("s", "line 1\nline 2") + qwen("b", "true")),
    ['f({"s": "line 1\\nline 2", "b": true})'],
  ],
  [
    "a text that is empty, or ends with line breaks",
    qwen3Coder,
    qwenCall(qwen("s", "") + qwen("colour", "\nred\n")),
    ['f({"s": "", "colour": "\\nred\\n"})'],
  ],
  ["qwen's without parameters", qwen3Coder, qwenCall(""), ["f({})"]],
  [
    "seed's",
    seedOss,
    "<seed:tool_call>\n<function=f>\n<parameter=s>a\n</parameter>\n<parameter=l>['x', None]</parameter>\n</function>\n</seed:tool_call>",
    ['f({"s": "a\\n", "l": ["x", null]})'],
  ],
  [
    "MiniMax' attributes",
    minimaxM2,
    '<minimax:tool_call><invoke name="f" description="Run (it)"><parameter name="s" type="string">ls -la</parameter></invoke></minimax:tool_call>',
    ['f({"s": "ls -la"})'],
  ],
  [
    "minimax's, two in one pair of tags",
    minimaxM2,
    'I look.\n<minimax:tool_call>\n<invoke name="f">\n<parameter name="s">a "b"\n</parameter>\n<parameter name="n">5</parameter>\n</invoke>\n<invoke name="g">\n</invoke>\n</minimax:tool_call>',
    ["I look.", 'f({"s": "a \\"b\\"\\n", "n": 5})', "g({})"],
  ],
  [
    "minimax's whose name goes on",
    minimaxM2,
    '<minimax:tool_call>\n<invoke name="f" x>\n</invoke>\n</minimax:tool_call>',
    ['<minimax:tool_call>\n<invoke name="f" x>\n</invoke>\n</minimax:tool_call>'],
  ],
  [
    "numbers and constants that are text to the schema",
    qwen3Coder,
    qwenCall(qwen("s", "5") + qwen("colour", "null")),
    ['f({"s": "5", "colour": "null"})'],
  ],
  [
    "a text or nothing",
    qwen3Coder,
    qwenCall(qwen("maybe", "null") + qwen("maybe2", "null")),
    ['f({"maybe": null, "maybe2": null})'],
  ],
  [
    "a text or nothing, as it stands",
    qwen3Coder,
    qwenCall(qwen("maybe", '"exact phrase"') + qwen("maybe2", "'a'") + qwen("maybe3", ' "x" ') + qwen("more", "(5)")),
    ['f({"maybe": "\\"exact phrase\\"", "maybe2": "\'a\'", "maybe3": " \\"x\\" ", "more": "(5)"})'],
  ],
  [
    "a text or a list, without a text's quotes",
    qwen3Coder,
    qwenCall(qwen("texts", "['a']") + qwen("texts", "'use strict'") + qwen("l", "(5, 'a')")),
    ['f({"texts": ["a"], "texts": "\'use strict\'", "l": [5, "a"]})'],
  ],
  ["a text that is JSON of another type", qwen3Coder, qwenCall(qwen("maybe", "5")), ['f({"maybe": "5"})']],
  [
    "values that are not JSON",
    qwen3Coder,
    qwenCall(qwen("n", "five") + qwen("b", "False") + qwen("o", "{'a': 'b'}")),
    ['f({"n": "five", "b": false, "o": {"a": "b"}})'],
  ],
  ["keys that the schema lacks", qwen3Coder, qwenCall(qwen("x", "1") + qwen("y", "z")), ['f({"x": 1, "y": "z"})']],
  [
    "an end tag within a value",
    qwen3Coder,
    qwenCall(qwen("s", "a</parameter> b </function>\n</tool_call> c")),
    ['f({"s": "a</parameter> b </function>\\n</tool_call> c"})'],
  ],
  [
    "an opener within a value",
    qwen3Coder,
    qwenCall(qwen("s", "<tool_call>\n<function=g>\n</function>")),
    ['f({"s": "<tool_call>\\n<function=g>\\n</function>"})'],
  ],
  [
    "end tags within JSON",
    qwen3Coder,
    qwenCall(qwen("l", '["</parameter></function>"]')),
    ['f({"l": ["</parameter></function>"]})'],
  ],
  ["JSON that breaks off", qwen3Coder, qwenCall(qwen("l", '["a')), ['f({"l": "[\\"a\\n"})']],
  [
    "a value without its end tag, before the next one",
    qwen3Coder,
    `${qwenCall(`<parameter=s>\nline 1\nline 2\n${qwen("n", "5")}`)}\nDone.`,
    ['f({"s": "line 1\\nline 2", "n": 5})', "Done."],
  ],
  [
    "a parameter's tag within a string of JSON",
    qwen3Coder,
    qwenCall(qwen("o", '{"code": "a\n<parameter=s>\nb"}')),
    ['f({"o": {"code": "a\\n<parameter=s>\\nb"}})'],
  ],
  [
    "tags of parameters within a text, which the schema lacks or the call has already",
    qwen3Coder,
    qwenCall(qwen("n", "5") + qwen("s", "a\n<parameter=x>\n<parameter=n>\n<parameter=s>\nb")),
    ['f({"n": 5, "s": "a\\n<parameter=x>\\n<parameter=n>\\n<parameter=s>\\nb"})'],
  ],
  [
    "a value without its end tag, where any key may follow",
    qwen3Coder,
    "<tool_call>\n<function=g>\n<parameter=x>\n1\n<parameter=y>\n2\n</parameter>\n</function>\n</tool_call>",
    ['g({"x": 1, "y": 2})'],
  ],
  [
    "a value without its end tag, before the end of all",
    qwen3Coder,
    `${qwenCall("<parameter=l>\n[1]\n")}\nDone.\n${qwenCall("<parameter=s>\n")}`,
    ['f({"l": [1]})', "Done.", 'f({"s": ""})'],
  ],
  [
    "a value without its end tag, before another call",
    qwen3Coder,
    "<tool_call>\n<function=f>\n<parameter=s>\na\n</function>\n<function=g>\n</function>\n</tool_call>",
    ['f({"s": "a"})', "g({})"],
  ],
  [
    "a value without its end tag, before one of another name",
    qwen3Coder,
    "<tool_call>\n<function=f>\n<parameter=s>\na\n</function>\n<function=h>\n</function>",
    ['f({"s": "a"})', "<function=h>\n</function>"],
  ],
  [
    "no end of the parameters",
    qwen3Coder,
    `<tool_call>\n<function=f>\n${qwen("s", "a")}</tool_call>\nDone.`,
    ['f({"s": "a"})', "Done."],
  ],
  [
    "a value without its end tag, at the answer's end",
    qwen3Coder,
    "<function=f>\n<parameter=s>\na\n</function>\n",
    ['f({"s": "a"})'],
  ],
  [
    "a value without its end tag, before the last end of all",
    qwen3Coder,
    "<tool_call>\n<function=f>\n<parameter=n>\n5\n</tool_call>",
    ['f({"n": 5})'],
  ],
  [
    "another format's tags within a value",
    qwen3Coder,
    qwenCall(qwen("s", '<tool_call>\n{"name": "f"}\n</tool_call>\n</function>\n.')),
    ['f({"s": "<tool_call>\\n{\\"name\\": \\"f\\"}\\n</tool_call>\\n</function>\\n."})'],
  ],
  ["no closing tag", qwen3Coder, "<tool_call>\n<function=f>\n</function>", ["f({})"]],
  ["cut off in a value", qwen3Coder, "<tool_call>\n<function=f>\n<parameter=s>\nabc\n</para", ['f({"s": "abc)']],
  ["cut off in a key", qwen3Coder, "<tool_call>\n<function=f>\n<parameter=ci", ["f({)"]],
  [
    "broken behind a second key",
    glm45,
    "<tool_call>f\n<arg_key>n</arg_key>\n<arg_value>5</arg_value>\n<arg_key>s</arg_key>oops</tool_call>",
    ['f({"n": 5})', "oops</tool_call>"],
  ],
  [
    "two in one pair of tags",
    qwen3Coder,
    `<tool_call>\n<function=f>\n${qwen("n", "1")}</function>\n<function=g>\n</function>\n</tool_call>`,
    ['f({"n": 1})', "g({})"],
  ],
  [
    "qwen's without the outer tag",
    qwen3Coder,
    `I look.\n<function=f>\n${qwen("s", "a")}</function>\n</tool_call>\n<function=g>\n</function>`,
    ["I look.", 'f({"s": "a"})', "g({})"],
  ],
  [
    "a second in the same tags of another name",
    qwen3Coder,
    "<tool_call>\n<function=f>\n</function>\n<function=h>\n</function>\n</tool_call>",
    ["f({})", "<function=h>\n</function>\n</tool_call>"],
  ],
  [
    "references to another parameter and to the whole",
    qwen3Coder,
    qwenCall(qwen("again", '{"a": 1}') + qwen("tree", "[{'s': 'a'}]")),
    ['f({"again": {"a": 1}, "tree": [{"s": "a"}]})'],
  ],
  [
    "olmo's",
    olmo3,
    "Sure.\n<function_calls>\nf(s='it\\'s', n=5, l=[1, 'a'])\ng()\n</function_calls>",
    ["Sure.", 'f({"s": "it\'s", "n": 5, "l": [1, "a"]})', "g({})"],
  ],
  [
    "olmo's with JSON's constants",
    olmo3,
    "<function_calls>f( b = true , maybe=null )</function_calls>",
    ['f({"b": true, "maybe": null})'],
  ],
  [
    "olmo's with a second of another name",
    olmo3,
    "<function_calls>\nf()\nh()\n</function_calls>",
    ["f({})", "h()\n</function_calls>"],
  ],
  ["olmo's cut off", olmo3, "<function_calls>\nf(s='ab", ['f({"s": "ab)']],
  [
    "lfm2's",
    lfm2,
    `Sure.<|tool_call_start|>[f(s="it's", n=5, l=[1, 'a']), g()]<|tool_call_end|>Done.`,
    ["Sure.", 'f({"s": "it\'s", "n": 5, "l": [1, "a"]})', "g({})", "Done."],
  ],
  ["lfm2's cut off", lfm2, "<|tool_call_start|>[f(s='ab", ['f({"s": "ab)']],
  [
    "lfm2's with a second of another name",
    lfm2,
    "<|tool_call_start|>[f(), h()]<|tool_call_end|>",
    ["f({})", ", h()]<|tool_call_end|>"],
  ],
  [
    "olmo's with a second that is no call",
    olmo3,
    "<function_calls>\nf(n=5)\nf(n=1_000)\n</function_calls>",
    ['f({"n": 5})', "f(n=1_000)\n</function_calls>"],
  ],
];

export const TEXTS: readonly (readonly [format: ToolCallFormat, text: string])[] = [
  [glm45, "<tool_call>unknown\n</tool_call>"],
  [glm45, "<tool_call>f\nor so</tool_call>"],
  [glm45, "<tool_call>f x"],
  [glm45, `<tool_call>${"f".repeat(300)}`],
  [qwen3Coder, "<tool_call>\n<function=unknown>\n</function>"],
  [qwen3Coder, "<function=unknown>\n</function>"],
  [qwen3Coder, '<tool_call>{"name": "f", "arguments": {}}</tool_call>'],
  [qwen3Coder, "use <tool_call>\n<function=f> to call"],
  [qwen3Coder, `<tool_call>${" ".repeat(300)}<function=f>`],
  [seedOss, "<tool_call>\n<function=f>\n</function>"],
  [olmo3, "<function_calls></function_calls>"],
  [olmo3, "<function_calls>f"],
  [olmo3, "<function_calls>h()</function_calls>"],
  [olmo3, "f(s='a')"],
  [olmo3, "<function_calls>\nf(s=r'a')\n</function_calls>"],
  [olmo3, "<function_calls>\nf(o={1: 'a'})\n</function_calls>"],
  [olmo3, "<function_calls>\nf(n=5, o={1, 2})\n</function_calls>"],
  [olmo3, '<function_calls>\nf(s="""a""")\n</function_calls>'],
  [olmo3, "<function_calls>\nf('positional')\n</function_calls>"],
  [lfm2, "<|tool_call_start|>[]<|tool_call_end|>"],
  [lfm2, "<|tool_call_start|>f()<|tool_call_end|>"],
  [lfm2, "<|tool_call_start|>[f"],
  [lfm2, "[f(s='a')]"],
  [glm45, "<tool_call>f\n<arg_key>n</arg_key>oops</tool_call>"],
  [qwen3Coder, `<tool_call>\n<function=f>\n<parameter=${"n".repeat(600)}>`],
];
