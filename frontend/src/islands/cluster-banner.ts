import { html, nothing } from "lit";
import { gettext } from "../gettext.ts";
import { othersOf, urisOf } from "../live/consoles.ts";
import { Follow } from "../live/source.ts";
import { session } from "../services.ts";
import { line } from "./banners.ts";
import { consoleLink } from "./console-link.ts";
import { Island } from "./island.ts";

const { cluster = "" } = document.body.dataset;

/**
 * The banner of a lost broker of a cluster: where the other brokers are, by the list for clients, or as they were known when the
 * page was made. Each has queues, users and sessions of its own: the page does not go there by itself.
 */
class ClusterBanner extends Island {
  constructor() {
    super();
    session.subscribe("/topic/$mom.failover", (body) => session.learn(urisOf(JSON.parse(body))));
    new Follow(this, () => [session]);
  }

  protected override render() {
    const others = othersOf(session.brokers.length > 0 ? session.brokers : cluster.split(" "));
    if (session.status.kind !== "reconnecting" || others.length === 0) return nothing;
    return line("warn", "triangle-alert", html`${gettext("Other brokers of the cluster, where you may have to sign in:")} ${others.map(consoleLink)}`);
  }
}

customElements.define("mom-cluster-banner", ClusterBanner);
document.querySelector("mom-banners")!.append(document.createElement("mom-cluster-banner"));
