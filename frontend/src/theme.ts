/** Light or dark: by default that of the system, else a cookie that the server renders. */

import { keep } from "./cookies.ts";

export function toggleTheme(): void {
  const { dataset } = document.documentElement;
  const dark = dataset.theme ? dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  dataset.theme = dark ? "light" : "dark";
  keep("mom_theme", dataset.theme);
}
