/** The frame of all pages: navigation, theme, and the question for a key. */
import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { AlertsPage } from "./alerts/alerts-page.js";
import { wantedSignIn } from "./api/client.js";
import { loadModels } from "./api/models.js";
import { learnSession } from "./api/session.js";
import { BatchesPage } from "./batches/batches-page.js";
import { CachesPage } from "./caches/caches-page.js";
import { chatHash, chatTitle } from "./chat/address.js";
import { Playground } from "./chat/playground.js";
import { Dashboard } from "./dashboard/dashboard.js";
import { RequestsPage } from "./dashboard/requests-page.js";
import { KeysPage } from "./fleet/keys-page.js";
import { ModelsPage } from "./fleet/models-page.js";
import { QualityPage } from "./fleet/quality-page.js";
import { ReportsPage } from "./fleet/reports-page.js";
import { isFleet, learnServer } from "./fleet/server-kind.js";
import { SpendPage } from "./fleet/spend-page.js";
import { Menu } from "./parts/menu.js";
import { RoutingPage } from "./routing/routing-page.js";
import { KeyForm, SignedIn } from "./sign-in.js";

interface Page {
  readonly hash: string;
  readonly name: string;
  readonly view: ComponentType;
  /** Whether only a gateway has this page. */
  readonly isFleets: boolean;
  /** Seldom opened: under "More" where the header lacks room for all pages. */
  readonly isMore?: boolean;
}

/** Most links that fit beside the name, two sign-ins and the theme in a window of 1280 pixels. */
const MOST_LINKS = 7;

const PAGES: readonly Page[] = [
  { hash: "#/", name: "Chat", view: Playground, isFleets: false },
  { hash: "#/dashboard", name: "Dashboard", view: Dashboard, isFleets: false },
  { hash: "#/requests", name: "Requests", view: RequestsPage, isFleets: false },
  { hash: "#/models", name: "Models", view: ModelsPage, isFleets: false },
  { hash: "#/batches", name: "Batches", view: BatchesPage, isFleets: true },
  { hash: "#/routing", name: "Routing", view: RoutingPage, isFleets: true, isMore: true },
  { hash: "#/keys", name: "Keys", view: KeysPage, isFleets: true },
  { hash: "#/spend", name: "Spend", view: SpendPage, isFleets: true },
  { hash: "#/caches", name: "Caches", view: CachesPage, isFleets: true, isMore: true },
  { hash: "#/quality", name: "Quality", view: QualityPage, isFleets: true, isMore: true },
  { hash: "#/alerts", name: "Alerts", view: AlertsPage, isFleets: true, isMore: true },
  { hash: "#/reports", name: "Reports", view: ReportsPage, isFleets: false, isMore: true },
];

const THEME_NAME = "millrace-theme";
const THEMES = { system: "◐ System", light: "☀ Light", dark: "☾ Dark" } as const;

const hash = signal(location.hash);
/** Addresses of conversations belong to the first page. */
const viewOf = (address: string) => (PAGES.find((one) => one.hash === address) ?? PAGES[0]!).view;
addEventListener("hashchange", () => {
  // The previous page may have asked for a sign-in that the next one does not need.
  if (viewOf(location.hash) !== viewOf(hash.value)) wantedSignIn.value = undefined;
  hash.value = location.hash;
});

/** Number of sign-ins and sign-outs: the page is rendered again after each. */
const signIns = signal(0);
const theme = signal(localStorage.getItem(THEME_NAME) ?? "system");

/** Renders the page again after a sign-in or a sign-out. */
const showAnew = () => {
  signIns.value++;
  void learnServer();
};

interface PageLinksProps {
  readonly pages: readonly Page[];
  readonly open: Page | undefined;
}

function PageLinks({ pages, open }: PageLinksProps) {
  const links = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // In a narrow window the links scroll: brings the page's own link into view when all links exist.
    links.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [open, pages.length]);
  const linkTo = (one: Page) => (
    <a
      key={one.hash}
      href={one.view === Playground ? chatHash.value : one.hash}
      aria-current={one === open ? "page" : undefined}
    >
      {one.name}
    </a>
  );
  const isGrouped = pages.length > MOST_LINKS;
  const more = isGrouped ? pages.filter(({ isMore }) => isMore === true) : [];
  const openInMore = more.find((one) => one === open);
  return (
    <nav aria-label="Pages">
      <div class="links" ref={links}>
        {pages.filter((one) => !more.includes(one)).map(linkTo)}
      </div>
      {isGrouped && (
        <Menu label={openInMore?.name ?? "More"} isCurrent={openInMore !== undefined}>
          {more.map(linkTo)}
        </Menu>
      )}
    </nav>
  );
}

export function Shell() {
  useEffect(() => {
    void learnServer();
    void learnSession();
  }, []);
  document.documentElement.dataset.theme = theme.value;
  const pages = PAGES.filter(({ isFleets }) => !isFleets || isFleet.value === true);
  // A gateway's page waits until the server reports that it is a gateway: another page would ask for another key
  // meanwhile.
  const isKnown = isFleet.value !== undefined || PAGES.every((one) => !one.isFleets || one.hash !== hash.value);
  const page = isKnown ? (pages.find((one) => one.hash === hash.value) ?? pages[0]!) : undefined;
  const View = page?.view;
  // Pages without the list of models ask for no sign-in for it.
  const showsModels = View === ModelsPage || View === RoutingPage;
  const asker = View === Playground ? "client" : showsModels ? "operator" : "nobody";
  useEffect(() => void loadModels(asker), [asker, signIns.value]);
  const title = View === Playground ? chatTitle.value : page?.name;
  useEffect(() => {
    document.title = title === undefined ? "millrace" : `${title} – millrace`;
  }, [title]);
  const wanted = wantedSignIn.value;
  return (
    <>
      <header class="top">
        <h1>millrace</h1>
        <PageLinks pages={pages} open={page} />
        <div class="who">
          <SignedIn onDone={showAnew} />
        </div>
        <label class="theme">
          <span class="sr">Theme</span>
          <select
            value={theme.value}
            onChange={({ currentTarget }) => {
              theme.value = currentTarget.value;
              localStorage.setItem(THEME_NAME, theme.value);
            }}
          >
            {Object.entries(THEMES).map(([name, text]) => (
              <option key={name} value={name}>
                {text}
              </option>
            ))}
          </select>
        </label>
      </header>
      {wanted !== undefined && <KeyForm key={wanted} asker={wanted} onDone={showAnew} />}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: keyboard users scroll it */}
      <main tabIndex={0} aria-label={page?.name}>
        {View !== undefined && <View key={signIns.value} />}
      </main>
    </>
  );
}
