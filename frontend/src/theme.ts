/** Light or dark: the system's choice until somebody makes one, which the server then renders from a cookie. */

const YEAR_S = 365 * 24 * 3600;

export function toggleTheme(): void {
  const { dataset } = document.documentElement;
  const dark = dataset.theme ? dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  dataset.theme = dark ? "light" : "dark";
  document.cookie = `mom_theme=${dataset.theme}; path=/; max-age=${YEAR_S}; samesite=lax`;
}
