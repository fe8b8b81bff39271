/** Objects shared by all parts of a page, created once per tab: the STOMP session, the node's status, the address. */

import { NodeStatus } from "./live/node-status.ts";
import { isSignedIn } from "./live/requests.ts";
import { Session } from "./live/session.ts";
import { PageAddress } from "./page-address.ts";
import type { Server } from "./view/example.ts";

const { basePath = "/", stompPort = "", user = "", mirrors = "" } = document.body.dataset;
const base = location.origin + basePath;
/** Mirrors take over within seconds. */
const longestDelayMs = mirrors ? 2_000 : 10_000;

export const session = new Session(`${base.replace(/^http/, "ws")}ws`, isSignedIn, longestDelayMs);
export const nodeStatus = new NodeStatus();
export const pageAddress = new PageAddress();
/** The addresses of this broker, for example code. */
export const server: Server = { origin: base.replace(/\/$/, ""), host: location.hostname, stompPort, user };
