import { html, nothing } from "lit";
import { gettext } from "../gettext.ts";
import { failover } from "../live/failover.ts";
import { Follow } from "../live/source.ts";
import { session } from "../services.ts";
import { showToast } from "../toasts.ts";
import { line } from "./banners.ts";
import { consoleLink } from "./console-link.ts";
import { Island } from "./island.ts";

const { broker = "" } = document.body.dataset;

/** The banner of a lost broker that has mirrors: the one that serves now, and where else to look. */
class FailoverBanner extends Island {
  #servedBy = session.brokers[0];

  constructor() {
    super();
    new Follow(this, () => [session, failover]);
  }

  protected override updated(): void {
    const before = this.#servedBy;
    const [web] = session.brokers;
    this.#servedBy = web;
    if (before === undefined || web === undefined || before === web) return;
    showToast({ text: gettext("{name} is now served by {web}.", { name: broker, web }), tone: "good" });
  }

  protected override render() {
    if (failover.successor !== undefined) return this.#successor(failover.successor);
    if (session.status.kind !== "reconnecting" || failover.others.length === 0) return nothing;
    return line("warn", "triangle-alert", html`${gettext("Other brokers of {name}:", { name: broker })} ${failover.others.map(consoleLink)}`);
  }

  #successor(web: string) {
    const served = html`${gettext("{name} is now served by", { name: broker })} ${consoleLink(web)}.`;
    if (!failover.moves) {
      return line("warn", "triangle-alert", html`${served} ${gettext("This page stays here, so that no input is lost. You may have to sign in again there.")}`);
    }
    const moves = gettext("This page moves there in {seconds} s. You may have to sign in again.", { seconds: failover.moveDelayS });
    return line(
      "warn",
      "triangle-alert",
      html`${served} ${moves} <button type="button" @click=${() => failover.stay()}>${gettext("Stay on this page")}</button>`,
    );
  }
}

customElements.define("mom-failover-banner", FailoverBanner);
document.querySelector("mom-banners")!.append(document.createElement("mom-failover-banner"));
