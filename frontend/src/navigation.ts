/**
 * Navigation. htmx replaces the main part; frame, explorer and connection stay. A page changes when its path, `name` or
 * `id` changes: then it is scrolled to the top and its heading is focused. Changes of `tab` keep the focus; other
 * changes also keep the content.
 */

import htmx from "htmx.org";
import { gettext } from "./gettext.ts";
import { pageAddress } from "./services.ts";
import { showToast } from "./toasts.ts";

interface Context {
  sourceElement: Element;
  text: string;
  request: { action: string; method: string };
  response?: { raw: Response };
  push?: string;
}
interface Task {
  type: string;
  swapSpec: { style: string };
}
interface Detail {
  ctx: Context;
  tasks: Task[];
}

const { basePath = "/" } = document.body.dataset;
const MAIN = { target: "#main", select: "#main", selectOOB: "#environment" };
const FRAME = frameOf(document);

/** The address of what is drawn now; the address bar is ahead of it while a page is on its way. */
let shown = new URL(location.href);
let focused: string | undefined;
/** The scroll position of the page that Back leads to. */
let scrolled: number | undefined;

/** Go to a page of the console. */
export function visit(address: string, { push = true } = {}): void {
  void htmx.ajax("GET", address, { ...MAIN, swap: "outerHTML", push: push ? "true" : "false" } as object);
}

/** Handle links and forms of all pages; `arrived` is called for each new page. */
export function startNavigation(arrived: () => void): void {
  history.replaceState({ ...history.state, htmx: true }, "");
  on("config:request", ({ ctx }) => asBrowsersDo(ctx));
  on("before:request", ({ ctx }, event) => {
    const address = new URL(ctx.request.action, location.href);
    if (ctx.request.method === "GET" && !address.pathname.startsWith(`${basePath}console/`)) leave(address.href, event);
    else if (ctx.request.method !== "GET") sentForm(ctx)?.setAttribute("data-sending", "");
  });
  on("finally:request", ({ ctx }) => sentForm(ctx)?.removeAttribute("data-sending"));
  on("before:response", ({ ctx }, event) => {
    if (ctx.response!.raw.headers.get("content-type")?.startsWith("text/html")) return;
    if (!answersForm(ctx)) return leave(ctx.response!.raw.url, event);
    event.preventDefault();
    showToast({ text: gettext("The broker refused the request: HTTP {status}", { status: ctx.response!.raw.status }), tone: "bad" });
  });
  on("after:request", ({ ctx }, event) => {
    const answer = new DOMParser().parseFromString(ctx.text, "text/html");
    if (frameOf(answer) === FRAME) return;
    // Load the page completely after changes of user, language, version or mirrors, and for other pages.
    if (!answersForm(ctx) || answer.querySelector("#main") !== null) return leave(ctx.response!.raw.url, event);
    // A refusal of a form has no address of its own.
    const content = answer.querySelector("main")?.innerHTML ?? `<h1>${ctx.response!.raw.status}</h1>`;
    ctx.text = `<title>${answer.title}</title><main id="main" tabindex="-1"><div class="overview page">${content}</div></main>`;
  });
  on("before:swap", ({ ctx, tasks }) => {
    keepScroll();
    focused = traitOf(document.activeElement);
    const main = tasks.find(({ type }) => type === "main");
    if (main) main.swapSpec.style = viewOf(addressOf(ctx)) === viewOf(shown) ? "outerMorph" : "outerHTML";
    if (answersForm(ctx) || ctx.response!.raw.url === location.href) ctx.push = "false";
  });
  on("after:swap", ({ ctx }) => {
    const before = shown;
    shown = addressOf(ctx);
    // Close menus and dialogs after navigation.
    for (const open of document.querySelectorAll<HTMLElement>(":popover-open")) open.hidePopover();
    arrived();
    settle(before);
    markCurrent();
  });
  on("error", ({ ctx }) => {
    if (ctx) showToast({ text: gettext("No response from the broker. This page is unchanged."), tone: "bad" });
  });
  document.addEventListener("htmx:before:history:restore", (event) => {
    event.preventDefault();
    const to = new URL(location.href);
    if (viewOf(to) === viewOf(shown) && pageAddress.isFollowed) {
      shown = to;
      pageAddress.read();
    } else {
      scrolled = (history.state as { scroll?: number }).scroll ?? 0;
      visit(to.pathname + to.search, { push: false });
    }
  });
  // A form is sent once, however often its button is pressed meanwhile.
  document.addEventListener(
    "submit",
    (event) => {
      if (!(event.target as Element).hasAttribute("data-sending")) return;
      event.preventDefault();
      event.stopImmediatePropagation();
    },
    { capture: true },
  );
  document.addEventListener("click", followDrawn);
  markCurrent();
}

function on(name: string, action: (detail: Detail, event: Event) => void): void {
  document.addEventListener(`htmx:${name}`, (event) => action((event as CustomEvent<Detail>).detail, event));
}

/** A form that asks leaves behind what its address asked before, and an address without a path is this one. */
function asBrowsersDo({ sourceElement, request }: Context): void {
  if (!(sourceElement instanceof HTMLFormElement) || request.method !== "GET") return;
  request.action = new URL(sourceElement.getAttribute("action") ?? "", location.href).pathname;
}

/** The form that is sent; what only tries its fields, as a preview does, must not keep it from being sent. */
function sentForm({ sourceElement }: Context): HTMLFormElement | null {
  return sourceElement instanceof HTMLFormElement ? sourceElement : null;
}

/** Whether this is the direct response of a form, which has no address of its own. */
function answersForm({ request, response }: Context): boolean {
  return request.method !== "GET" && !response!.raw.redirected;
}

function addressOf(ctx: Context): URL {
  return answersForm(ctx) ? shown : new URL(ctx.response!.raw.url);
}

function leave(address: string, event: Event): void {
  event.preventDefault();
  location.assign(address);
}

/** Properties that must match for a page to fit into this frame: user, language, version and mirrors. */
function frameOf(page: Document): string {
  const script = page.querySelector<HTMLScriptElement>("head script[type=module]")?.getAttribute("src");
  return JSON.stringify([page.documentElement.lang, page.body.dataset.user, page.body.dataset.mirrors, script, page.querySelector("#main") !== null]);
}

function subjectOf({ pathname, searchParams }: URL): string {
  return JSON.stringify([pathname, searchParams.get("name"), searchParams.get("id")]);
}

function viewOf(address: URL): string {
  return subjectOf(address) + (address.searchParams.get("tab") ?? "");
}

function keepScroll(): void {
  const scroll = document.querySelector("#main > *")?.scrollTop ?? 0;
  history.replaceState({ ...history.state, scroll }, "");
}

/** Set focus and scroll position of a new page. */
function settle(before: URL): void {
  const main = document.querySelector<HTMLElement>("#main")!;
  const wrong = main.querySelector<HTMLElement>("[aria-invalid=true]");
  const other = subjectOf(before) !== subjectOf(shown);
  if (scrolled !== undefined || other) scrollBack(main.firstElementChild!, scrolled ?? 0);
  scrolled = undefined;
  if (main.querySelector("[autofocus]:focus")) return;
  if (wrong) {
    wrong.focus();
    return;
  }
  const active = document.activeElement;
  if (!other && active !== null && active !== document.body) return;
  const same = !other && focused ? document.querySelector<HTMLElement>(focused) : null;
  const heading = same ?? main.querySelector<HTMLElement>("h1");
  if (heading?.matches("h1")) heading.tabIndex = -1;
  heading?.focus({ preventScroll: true });
}

/** Scroll to where the page was left, once its islands have drawn so much, unless the user is faster. */
function scrollBack(area: Element, top: number): void {
  const reach = () => {
    area.scrollTo({ top, behavior: "instant" });
    return area.scrollTop >= Math.floor(top);
  };
  if (reach()) return;
  const grown = new MutationObserver(() => {
    if (!area.isConnected || reach()) grown.disconnect();
  });
  grown.observe(area, { childList: true, subtree: true });
  for (const event of ["wheel", "pointerdown", "keydown"]) addEventListener(event, () => grown.disconnect(), { once: true, passive: true });
}

/** A selector that finds the focused element after an update. */
function traitOf(element: Element | null): string | undefined {
  if (element === null || element === document.body) return undefined;
  if (element.id) return `#${CSS.escape(element.id)}`;
  for (const name of ["href", "name", "aria-label"]) {
    const value = element.getAttribute(name);
    if (value !== null) return `${element.localName}[${name}="${CSS.escape(value)}"]`;
  }
  return undefined;
}

/** Marks the line of the explorer that leads to what is shown: the longest address that begins its own. */
export function markCurrent(): void {
  for (const selector of ["#navigation a[href]", ".tab-bar a[href]"]) mark(document.querySelectorAll(selector));
}

function mark(found: NodeListOf<HTMLAnchorElement>): void {
  const links = [...found];
  const leaf = links.find((link) => link.search !== "" && subjectOf(new URL(link.href)) === subjectOf(shown));
  const above = links.filter((link) => link.search === "" && isBelow(shown.pathname, link.pathname)).sort((a, b) => b.pathname.length - a.pathname.length)[0];
  for (const link of links) {
    if (link.href === (leaf ?? above)?.href) link.setAttribute("aria-current", "page");
    // The page that a destination belongs to is marked with it.
    else if (link === above) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

/** Everything is below the overview, and no part of it. */
function isBelow(path: string, page: string): boolean {
  return page === `${basePath}console/` ? path === page : path.startsWith(page);
}

/** htmx follows the links that pages came with; those that islands drew are followed here. */
function followDrawn(event: MouseEvent): void {
  const link = (event.target as Element).closest<HTMLAnchorElement>("a[href]");
  if (link === null || event.defaultPrevented || link.hasAttribute("data-htmx-powered")) return;
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || event.button !== 0) return;
  if (link.origin !== location.origin || link.target || link.hasAttribute("download") || link.hasAttribute("data-whole")) return;
  if (!link.pathname.startsWith(`${basePath}console/`) || link.getAttribute("href")!.startsWith("#")) return;
  event.preventDefault();
  visit(link.href);
}
