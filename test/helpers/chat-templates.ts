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
