/** Loads modules while a page is shown, even if the broker is unavailable at that moment. */

const DELAY_MS = 1_000;
/** The minimum time between two reloads of a page. */
const RELOAD_MS = 10_000;
const RELOADED = "mom.reloaded";

/**
 * Loads a module. When that fails, the whole page is loaded again as soon as the broker answers: browsers remember
 * for as long as a page lives that a module could not be loaded, and after an upgrade it has another address.
 */
export async function loadModule<Module>(load: () => Promise<Module>): Promise<Module> {
  try {
    return await load();
  } catch {
    await answering();
    const since = Date.now() - Number(sessionStorage.getItem(RELOADED) ?? 0);
    if (since < RELOAD_MS) await pause(RELOAD_MS - since);
    sessionStorage.setItem(RELOADED, String(Date.now()));
    location.reload();
    return new Promise(() => {});
  }
}

/** Wait until the broker responds. */
async function answering(): Promise<void> {
  while (
    !(await fetch(import.meta.url, { cache: "no-store" }).then(
      (reply) => reply.status < 500,
      () => false,
    ))
  ) {
    await pause(DELAY_MS);
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
