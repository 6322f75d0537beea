/** Small chat templates in the forms that models' own have: tools in a system message, calls and results as turns. */
import { ChatTemplate } from "../../src/text/template/chat-template.js";

const TURNS = `{%- for m in messages %}
{{- '<|im_start|>' + m.role + '\\n' }}
{%- if m.reasoning_content is defined %}{{- '<think>' + m.reasoning_content + '</think>' }}{% endif %}
{{- m.content }}
{%- for call in m.tool_calls or [] %}
{{- 'CALL ' + call.id + ' ' + call.function.name + ' ' + (call.function.arguments | tojson) }}
{%- endfor %}
{%- if m.tool_call_id is defined %}{{- ' FOR ' + m.tool_call_id }}{% endif %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}`;

const TOOLS = "{%- if tools %}{{- tools | tojson + '\\n' }}{% endif %}";
const HERMES = "{#- within <tool_call></tool_call> XML tags #}";

/** Tools, and calls in Hermes' tags. */
export const toolTemplate = new ChatTemplate(`${HERMES}${TOOLS}${TURNS}`);

/** Mistral's calls. */
export const mistralTemplate = new ChatTemplate(`{#- [TOOL_CALLS][ #}${TOOLS}${TURNS}`);

/** Tools, but no way of calling them that is known. */
export const strangeToolTemplate = new ChatTemplate(`${TOOLS}${TURNS}`);

/** Opens the reasoning itself, unless told not to. */
export const thinkingTemplate = new ChatTemplate(
  `${HERMES}${TOOLS}${TURNS}{{- reasoning_effort | default('') }}
  {%- if enable_thinking is defined and not enable_thinking %}{{- '<think></think>' }}{% else %}{{- '<think>\\n' }}{% endif %}`,
);

/** Harmony's messages; of earlier turns' thoughts only those since the last answer. */
export const harmonyTemplate =
  new ChatTemplate(`{{- '<|start|>system<|message|>Reasoning: ' + (reasoning_effort | default('medium')) + '<|end|>' }}
{%- if tools %}{{- '<|start|>developer<|message|>' }}{% for tool in tools %}{{- '// ' + tool.function.description + ' ' + tool.function.name + ';' }}{% endfor %}{{- '<|end|>' }}{% endif %}
{%- for message in messages %}
{%- if 'content' in message and '<|channel|>' in message.content %}{{- raise_exception('channels in content') }}{% endif %}
{%- if message.role == 'assistant' and 'tool_calls' in message %}
{%- if message.content and message.thinking %}{{- raise_exception('content beside thinking') }}{% endif %}
{%- set later = namespace(answer=false) %}
{%- for other in messages[loop.index:] %}{% if other.role == 'assistant' and 'tool_calls' not in other %}{% set later.answer = true %}{% endif %}{% endfor %}
{%- if message.thinking and not later.answer %}{{- '<|start|>assistant<|channel|>analysis<|message|>' + message.thinking + '<|end|>' }}{% endif %}
{%- set call = message.tool_calls[0].function %}
{{- '<|start|>assistant to=functions.' + call.name + '<|channel|>commentary json<|message|>' + (call.arguments | tojson) + '<|call|>' }}
{%- elif message.role == 'assistant' %}{{- '<|start|>assistant<|channel|>final<|message|>' + message.content + '<|end|>' }}
{%- else %}{{- '<|start|>' + message.role + '<|message|>' + message.content + '<|end|>' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{% endif %}`);

/** Calls and thoughts as models of other families have them: small templates in the forms of their own. */
const LINES = (call: string) => `{%- for m in messages %}
{{- '<|' + m.role + '|>' + (m.content or '') }}
{%- for tool_call in m.tool_calls or [] %}{% set call = tool_call.function %}${call}{% endfor %}
{{- '<|end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{% endif %}`;

const PARAMETERS = (before: string, between: string, after: string) =>
  `{%- for key, value in call.arguments | items %}{{- '${before}' + key + '${between}' + (value if value is string else value | tojson) + '${after}' }}{% endfor %}`;

export const glmTemplate = new ChatTemplate(
  `${TOOLS}${LINES(`{{- '<tool_call>' + call.name + '\\n' }}${PARAMETERS("<arg_key>", "</arg_key>\\n<arg_value>", "</arg_value>\\n")}{{- '</tool_call>' }}`)}
{%- if enable_thinking is defined and not enable_thinking %}{{- '<think></think>' }}{% endif %}`,
);

export const qwenCoderTemplate = new ChatTemplate(
  `${TOOLS}${LINES(`{{- '<tool_call>\\n<function=' + call.name + '>\\n' }}${PARAMETERS("<parameter=", ">\\n", "\\n</parameter>\\n")}{{- '</function>\\n</tool_call>' }}`)}`,
);

/** Thoughts in tags of its own, which a budget of 0 opens in the prompt. */
export const seedTemplate = new ChatTemplate(
  `${TOOLS}${LINES(`{{- '<seed:tool_call>\\n<function=' + call.name + '>\\n' }}${PARAMETERS("<parameter=", ">", "</parameter>\\n")}{{- '</function>\\n</seed:tool_call>' }}`)}
{%- if thinking_budget is defined and thinking_budget == 0 %}{{- '<seed:think><seed:cot_budget_reflect>' }}{% endif %}`,
);

export const olmoTemplate = new ChatTemplate(
  `${TOOLS}${LINES("{{- '<function_calls>\\n' + call.name + '(' }}{% for key, value in call.arguments | items %}{{- key + '=' + (value | tojson) }}{% if not loop.last %}, {% endif %}{% endfor %}{{- ')\\n</function_calls>' }}")}`,
);

/** SmolLM3's variable, in a template that prints no calls. */
export const xmlToolsTemplate = new ChatTemplate(
  `{%- if xml_tools %}{{- '<tools>' }}{% for tool in xml_tools %}{{- tool | tojson }}{% endfor %}{{- '</tools> within <tool_call></tool_call> tags' }}{% endif %}${LINES("")}`,
);

/** Phi-4-mini's tools, which are a member of the system message. */
export const phiTemplate = new ChatTemplate(
  `{%- for m in messages %}{{- '<|' + m.role + '|>' + m.content }}{% if m.role == 'system' and 'tools' in m and m.tools is not none %}{{- '<|tool|>' + m.tools + '<|/tool|>' }}{% endif %}{{- '<|end|>' }}{% endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{% endif %}`,
);

export const graniteTemplate = new ChatTemplate(
  `{%- if tools %}{{- 'respond with <|tool_call|> followed by a JSON list of tools used: ' + tools | tojson }}{% endif %}
{%- for m in messages %}{{- '<|' + m.role + '|>' + m.content + '<|end|>' }}{% endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{% endif %}`,
);

/** A block of code for the arguments. */
export const deepseekV3Template = new ChatTemplate(
  `${TOOLS}${LINES("{{- '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + tool_call.type + '<｜tool▁sep｜>' + call.name + '\\n```json\\n' + (call.arguments | tojson) + '\\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>' }}")}`,
);

/** Prints no tools, and a second turn for content that is empty beside calls. */
export const deepseekOwnTemplate = new ChatTemplate(
  `{%- for m in messages %}
{%- if m.role == 'assistant' and m.tool_calls %}{% for tool_call in m.tool_calls %}{{- '<|assistant|>' + '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + tool_call.type + '<｜tool▁sep｜>' + tool_call.function.name + '\\n' + '\`\`\`json' + '\\n' + tool_call.function.arguments + '\\n\`\`\`<｜tool▁call▁end｜><｜tool▁calls▁end｜>' }}{% endfor %}{% endif %}
{%- if m.role != 'assistant' or m.content is not none %}{{- '<|' + m.role + '|>' + m.content }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{% endif %}`,
);

/** Its arguments are text. */
export const deepseekV31Template = new ChatTemplate(
  `${TOOLS}${LINES("{{- '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + call.name + '<｜tool▁sep｜>' + call.arguments + '<｜tool▁call▁end｜><｜tool▁calls▁end｜>' }}")}`,
);

/** Of a call it prints the id alone, and its results have that too. */
export const kimiTemplate = new ChatTemplate(
  `${TOOLS}{%- for m in messages %}
{{- '<|' + m.role + '|>' }}{% if m.tool_call_id %}{{- '## Return of ' + m.tool_call_id + '\\n' }}{% endif %}{{- m.content or '' }}
{%- if m.tool_calls %}{{- '<|tool_calls_section_begin|>' }}{% for call in m.tool_calls %}{{- '<|tool_call_begin|>' + call.id + '<|tool_call_argument_begin|>' + (call.function.arguments | tojson) + '<|tool_call_end|>' }}{% endfor %}{{- '<|tool_calls_section_end|>' }}{% endif %}
{{- '<|end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{% endif %}`,
);

/** Knows no calls, and results by another name. */
export const glm4Template = new ChatTemplate(`{%- if tools %}{{- '<|system|>\\n' + tools | tojson }}{% endif %}
{%- for m in messages %}
{%- if m.role == 'assistant' and m.metadata %}{{- '<|assistant|>' + m.metadata + '\\n' + m.content }}
{%- elif m.role in ['user', 'assistant', 'observation', 'system'] %}{{- '<|' + m.role + '|>\\n' + m.content }}{% endif %}
{%- endfor %}{#- <|observation|> #}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{% endif %}`);

const LIST = (open: string, close: string) =>
  new ChatTemplate(
    `${TOOLS}${LINES(`{{- '${open}[{"name": "' + call.name + '", "arguments": ' + (call.arguments | tojson) + '}]${close}' }}`)}`,
  );

export const nemotronTemplate = LIST("<TOOLCALL>", "</TOOLCALL>");
export const hunyuanTemplate = LIST("<tool_calls>", "</tool_calls>");

/** Mistral's thoughts. */
export const mistralThinkingTemplate = new ChatTemplate(
  `{{- 'Think first: [THINK]…[/THINK]' }}{#- [TOOL_CALLS] [ARGS] #}${TOOLS}${LINES("{{- '[TOOL_CALLS]' + call.name + '[ARGS]' + (call.arguments | tojson) }}")}`,
);
