/** The islands: custom elements that modules render. A module is loaded when a page first contains its element. */

import { loadModule } from "./load-module.ts";

/** The islands of the overview are one chunk. */
const overview = () => import("./islands/overview.ts");

const MODULES: Record<string, () => Promise<unknown>> = {
  "mom-confirm-form": () => import("./islands/confirm-form.ts"),
  "mom-alert-list": () => import("./islands/alert-list.ts"),
  "mom-attention-list": overview,
  "mom-banners": () => import("./islands/banners.ts"),
  "mom-branch": () => import("./islands/branch.ts"),
  "mom-bridge-steps": () => import("./islands/bridge-steps.ts"),
  "mom-bridge-test": () => import("./islands/bridge-test.ts"),
  "mom-busiest-list": overview,
  "mom-chart": () => import("./islands/chart.ts"),
  "mom-code-editor": () => import("./islands/code-editor.ts"),
  "mom-connection-list": () => import("./islands/connection-list.ts"),
  "mom-connection-page": () => import("./islands/connection-page.ts"),
  "mom-consumer-list": () => import("./islands/consumer-list.ts"),
  "mom-destination-code": () => import("./islands/destination-code.ts"),
  "mom-destination-head": () => import("./islands/destination-head.ts"),
  "mom-destination-history": () => import("./islands/destination-history.ts"),
  "mom-destination-list": () => import("./islands/destination-list.ts"),
  "mom-history-browser": () => import("./islands/history-browser.ts"),
  "mom-job-list": () => import("./islands/job-list.ts"),
  "mom-job-page": () => import("./islands/job-page.ts"),
  "mom-auto-refresh": () => import("./islands/auto-refresh.ts"),
  "mom-quick-start": () => import("./islands/quick-start.ts"),
  "mom-event-trigger": () => import("./islands/event-trigger.ts"),
  "mom-limit-meter": () => import("./islands/limit-meter.ts"),
  "mom-live-pill": () => import("./islands/live-pill.ts"),
  "mom-offset-actions": () => import("./islands/offset-actions.ts"),
  "mom-member-removal": () => import("./islands/member-removal.ts"),
  "mom-marked-destinations": () => import("./islands/marked-destinations.ts"),
  "mom-message-browser": () => import("./islands/message-browser.ts"),
  "mom-node-charts": overview,
  "mom-node-figures": overview,
  "mom-node-line": () => import("./islands/node-line.ts"),
  "mom-node-topology": overview,
  "mom-publish-form": () => import("./islands/publish-form.ts"),
  "mom-range-choice": () => import("./islands/range-choice.ts"),
  "mom-resend-button": () => import("./islands/resend-button.ts"),
  "mom-switchover-button": () => import("./islands/switchover-button.ts"),
  "mom-origin-list": () => import("./islands/origin-list.ts"),
  "mom-seed-list": () => import("./islands/seed-list.ts"),
  "mom-service-list": () => import("./islands/service-list.ts"),
  "mom-service-page": () => import("./islands/service-page.ts"),
  "mom-broker-state": () => import("./islands/broker-state.ts"),
  "mom-shutdown-button": () => import("./islands/shutdown-button.ts"),
  "mom-subscriber-list": () => import("./islands/subscriber-list.ts"),
  "mom-subscription-list": () => import("./islands/subscription-list.ts"),
};

/** Load the modules of all islands below `root` that are not defined yet. Each module defines its own element. */
export function loadIslands(root: ParentNode): void {
  for (const [name, load] of Object.entries(MODULES)) {
    if (customElements.get(name) === undefined && root.querySelector(name) !== null) void loadModule(load);
  }
}

/** Show elements that are hidden in the HTML because they need JavaScript. */
export function showScripted(root: ParentNode): void {
  for (const element of root.querySelectorAll<HTMLElement>("[data-scripted]")) element.hidden = false;
}
