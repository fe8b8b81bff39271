import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { defineConfig } from "vite";

/** Smaller copies next to what is served, for browsers that take them; files that are small or compressed have none. */
const compressed = {
  name: "compressed",
  closeBundle() {
    // It takes seconds, and what is rebuilt at each change is read from this machine.
    if (this.meta.watchMode) return;
    const served = "../static/console";
    for (const path of readdirSync(served, { recursive: true }).map((name) => join(served, name))) {
      if (!/\.(js|css|svg)$/.test(path) || statSync(path).size < 300) continue;
      const whole = readFileSync(path);
      writeFileSync(`${path}.br`, brotliCompressSync(whole, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: whole.length } }));
      writeFileSync(`${path}.gz`, gzipSync(whole, { level: 9 }));
    }
  },
};

// Entries are looked up by the template tag {% vite_asset %} in the manifest, under these very paths.
export default defineConfig({
  base: "./",
  plugins: [compressed],
  publicDir: false,
  build: {
    outDir: "../static/console/dist",
    emptyOutDir: true,
    manifest: "manifest.json",
    target: "es2022",
    // Browsers that know light-dark() know nesting: nothing is written out for older ones.
    cssTarget: ["chrome123", "firefox123", "safari17.5"],
    // A strict CSP allows neither data: scripts nor inlined fonts; files stay files.
    assetsInlineLimit: 0,
    modulePreload: false,
    rolldownOptions: {
      // A busy machine is no fault of a plugin, and nobody who starts a broker wants to read about it.
      checks: { bundlerTimings: false },
      input: ["src/console.ts", "src/style/console.css", "src/style/cluster.css", "src/style/destination.css", "src/style/steps.css", "src/style/welcome.css"],
      // What every page needs of others changes least: its own file stays in the browser's cache. What the frame
      // loads once the page is drawn comes in one piece.
      output: {
        codeSplitting: {
          includeDependenciesRecursively: false,
          groups: [
            { name: "vendor", test: /node_modules.(htmx|lit|@lit|tinykeys)|src.(gettext|language|islands.island|live.source)\.ts/ },
            {
              name: "frame",
              test: /src.(deferred|favourites|generated.(signs.severity|tables)|destinations.(stats|tree)|times|recent|rows|pages|live.(explorer-filter|polling)|view.(format|icon|moment|name|refusal|sign|sparkline|zone)|islands.(banners|branch|live-pill|marked-destinations|node-line))\.ts/,
            },
          ],
        },
      },
    },
  },
});
