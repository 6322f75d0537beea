/** Sampling settings, and the choice of models. */
import { chatModels, models } from "../api/models.js";
import { CopyButton } from "../parts/copy.js";
import { chat, modelOf, setModel, setSettings, setSideBySide } from "./chat-state.js";
import { curlOf, type NumberSetting, requestOf, type Settings } from "./conversation.js";

function ModelPicker({ index }: { readonly index: number }) {
  const pane = chat.value.panes[index]!;
  const id = `model-${index}`;
  return (
    <div class="field">
      <label for={id}>{chat.value.panes.length === 1 ? "Model" : `Model ${index + 1}`}</label>
      <select id={id} value={modelOf(pane)} onChange={({ currentTarget }) => setModel(index, currentTarget.value)}>
        {chatModels(models.value).map((model) => (
          <option key={model.id} value={model.id}>
            {model.id}
          </option>
        ))}
      </select>
    </div>
  );
}

interface NumberField {
  readonly name: NumberSetting;
  readonly label: string;
  readonly step: string;
  readonly min: number;
}

const NUMBERS: readonly NumberField[] = [
  { name: "temperature", label: "Temperature", step: "0.1", min: 0 },
  { name: "topP", label: "Top p", step: "0.05", min: 0 },
  { name: "maxTokens", label: "Most tokens", step: "1", min: 1 },
  { name: "seed", label: "Seed", step: "1", min: 0 },
];

/** Settings that few visitors need. */
const MORE_NUMBERS: readonly NumberField[] = [
  { name: "topK", label: "Top k", step: "1", min: -1 },
  { name: "minP", label: "Min p", step: "0.01", min: 0 },
  { name: "frequencyPenalty", label: "Frequency penalty", step: "0.1", min: -2 },
  { name: "presencePenalty", label: "Presence penalty", step: "0.1", min: -2 },
  { name: "repetitionPenalty", label: "Repetition penalty", step: "0.05", min: 0 },
];

const numberInput = ({ name, label, step, min }: NumberField) => (
  <div class="field" key={name}>
    <label for={name}>{label}</label>
    <input
      id={name}
      type="number"
      step={step}
      min={min}
      placeholder="the server's"
      value={chat.value.settings[name]}
      onInput={({ currentTarget }) => setSettings({ [name]: currentTarget.value })}
    />
  </div>
);

function curl(): string {
  const [pane] = chat.value.panes;
  const request = requestOf({ ...pane!, model: modelOf(pane!) }, chat.value.settings);
  return curlOf(request, new URL(".", location.href).href);
}

export function SettingsPanel() {
  const { settings, panes } = chat.value;
  const isPaired = panes.length > 1;
  return (
    <aside class="settings" aria-label="Settings">
      {panes.map((_, i) => (
        <ModelPicker key={i} index={i} />
      ))}
      <label class="check">
        <input type="checkbox" checked={isPaired} onChange={() => setSideBySide(!isPaired)} />
        Two models side by side
      </label>
      <div class="field">
        <label for="system">System prompt</label>
        <textarea
          id="system"
          dir="auto"
          rows={3}
          value={settings.system}
          onInput={({ currentTarget }) => setSettings({ system: currentTarget.value })}
        />
      </div>
      {NUMBERS.map(numberInput)}
      <details>
        <summary>More</summary>
        {MORE_NUMBERS.map(numberInput)}
        <div class="field">
          <label for="stop-strings">Stop strings, one a line</label>
          <textarea
            id="stop-strings"
            rows={2}
            value={settings.stop}
            onInput={({ currentTarget }) => setSettings({ stop: currentTarget.value })}
          />
        </div>
      </details>
      <div class="field">
        <label for="format">Form of answers</label>
        <select
          id="format"
          value={settings.format}
          onChange={({ currentTarget }) => setSettings({ format: currentTarget.value as Settings["format"] })}
        >
          <option value="text">Text</option>
          <option value="json">JSON</option>
          <option value="schema">JSON Schema</option>
        </select>
      </div>
      {settings.format === "schema" && (
        <div class="field">
          <label for="schema">JSON Schema</label>
          <textarea
            id="schema"
            rows={6}
            value={settings.schema}
            onInput={({ currentTarget }) => setSettings({ schema: currentTarget.value })}
          />
        </div>
      )}
      <label class="check">
        <input
          type="checkbox"
          checked={settings.showsTokens}
          onChange={() => setSettings({ showsTokens: !settings.showsTokens })}
        />
        Probabilities of tokens
      </label>
      <CopyButton label="Copy the request as curl" textOf={curl} />
    </aside>
  );
}
