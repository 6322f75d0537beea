/** Searches the hub by words, shows the models of one repository with the memory that each needs, and pulls one. */
import { useSignal } from "@preact/signals";
import { getJson } from "../api/client.js";
import { sizeText } from "../parts/size-text.js";
import { Table } from "../parts/table.js";
import { useTimeText } from "../parts/time-text.js";
import { inPath, LIBRARY, type Memory, type Repository, type Variant } from "./library-api.js";

type Needed = Memory & { readonly fits: boolean };

interface HubProps {
  /** Performs an action that may fail, and shows the error. */
  act(what: () => Promise<unknown>): unknown;
  pull(model: string): unknown;
}

function Variants({ list, act, pull }: HubProps & { readonly list: readonly Variant[] }) {
  const needed = useSignal<Readonly<Record<string, Needed>>>({});
  const measure = async (name: string) => {
    const need = await getJson<Needed>(`${LIBRARY}/memory?model=${encodeURIComponent(name)}`, "operator");
    needed.value = { ...needed.value, [name]: need };
  };
  return (
    <Table columns={["Model", "Size", "Memory needed", "Do"]}>
      {list.map(({ name, label, bytes, is_whole, is_on_disk }) => {
        const need = needed.value[name];
        return (
          <tr key={name}>
            <td>{label}</td>
            <td>{sizeText(bytes)}</td>
            <td>
              {need === undefined ? (
                <button type="button" class="plain" onClick={() => act(() => measure(name))}>
                  Work out
                </button>
              ) : (
                <NeedText need={need} isTooMuch={!need.fits} />
              )}
            </td>
            <td>
              {is_on_disk ? (
                "on disk"
              ) : (
                <button type="button" class="plain" disabled={!is_whole} onClick={() => pull(name)}>
                  Pull
                </button>
              )}
            </td>
          </tr>
        );
      })}
    </Table>
  );
}

/** Memory of one instance, with its parts in a tooltip. */
export function NeedText({ need, isTooMuch }: { readonly need: Memory; readonly isTooMuch: boolean }) {
  const { total_bytes, weight_bytes, work_bytes, kv_bytes, context_tokens } = need;
  const parts = `weights ${sizeText(weight_bytes)}, work ${sizeText(work_bytes)}, keys and values of ${context_tokens} tokens ${sizeText(kv_bytes)}`;
  return (
    <span title={parts} class={isTooMuch ? "error" : undefined}>
      {sizeText(total_bytes)}
      {isTooMuch && ", more than is free"}
    </span>
  );
}

export function HubSearch({ act, pull }: HubProps) {
  const timeText = useTimeText();
  const found = useSignal<readonly Repository[] | undefined>(undefined);
  const opened = useSignal<{ readonly name: string; readonly list: readonly Variant[] } | undefined>(undefined);
  const search = async (form: FormData) => {
    const query = new URLSearchParams({ search: String(form.get("search")), format: String(form.get("format")) });
    opened.value = undefined;
    found.value = (await getJson<{ data: Repository[] }>(`${LIBRARY}/hub?${query}`, "operator")).data;
  };
  const open = async (name: string) => {
    const { data } = await getJson<{ data: Variant[] }>(`${LIBRARY}/hub/${inPath(name)}`, "operator");
    opened.value = { name, list: data };
  };
  return (
    <>
      <form
        class="fields"
        onSubmit={(event) => {
          event.preventDefault();
          const form = new FormData(event.currentTarget as HTMLFormElement);
          act(() => search(form));
        }}
      >
        <div class="field">
          <label for="hub-search">Words of the name</label>
          <input id="hub-search" name="search" required maxLength={200} />
        </div>
        <div class="field">
          <label for="hub-format">Weights as</label>
          <select id="hub-format" name="format">
            <option value="gguf">GGUF</option>
            <option value="safetensors">safetensors</option>
          </select>
        </div>
        <button type="submit">Search</button>
      </form>
      {found.value?.length === 0 && <p class="hint">Nothing by that name.</p>}
      {found.value !== undefined && found.value.length > 0 && (
        <Table columns={["Repository", "Downloads", "Changed", "Do"]}>
          {found.value.map(({ name, downloads, gated, updated_at }) => (
            <tr key={name}>
              <td>
                {name}
                {gated && " (needs a token with access)"}
              </td>
              <td>{downloads.toLocaleString("en")}</td>
              <td>{timeText(updated_at)}</td>
              <td>
                <button type="button" class="plain" onClick={() => act(() => open(name))}>
                  Models
                </button>
              </td>
            </tr>
          ))}
        </Table>
      )}
      {opened.value !== undefined && (
        <>
          <h4>{opened.value.name}</h4>
          <Variants key={opened.value.name} list={opened.value.list} act={act} pull={pull} />
        </>
      )}
    </>
  );
}
