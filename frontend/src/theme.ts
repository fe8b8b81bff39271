/** Light or dark: the system's choice until somebody makes one, which the server then renders from a cookie. */

import { keep } from "./cookies.ts";

export function toggleTheme(): void {
  const { dataset } = document.documentElement;
  const dark = dataset.theme ? dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  dataset.theme = dark ? "light" : "dark";
  keep("mom_theme", dataset.theme);
}
