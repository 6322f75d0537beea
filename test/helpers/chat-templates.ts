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
