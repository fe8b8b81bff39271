/** The islands of the overview. */

import "../style/overview.css";
import "./attention-list.ts";
import "./busiest-list.ts";
import "./node-charts.ts";
import "./node-figures.ts";
import "./node-topology.ts";
