import { defineConfig } from "vitest/config";

// Times are written in the zone of the page, which is that of the browser.
process.env.TZ = "UTC";

// One process and one document for all: starting others costs more than all tests.
export default defineConfig({
  test: {
    include: ["tests/**/*.test.ts"],
    environment: "happy-dom",
    environmentOptions: { happyDOM: { url: "http://127.0.0.1:8000/console/" } },
    isolate: false,
    maxWorkers: 1,
    // Other tests use the processors at the same time.
    testTimeout: 30_000,
    hookTimeout: 30_000,
  },
});
