/** Settings of this browser, in cookies that the server reads: `mom_theme`, `mom_zone`, `mom_keys`, `mom_density`. */

const YEAR_S = 365 * 24 * 3600;

export function keep(name: string, value: string): void {
  const { basePath = "/" } = document.body.dataset;
  // biome-ignore lint/suspicious/noDocumentCookie: the Cookie Store API is only there over HTTPS
  document.cookie = `${name}=${encodeURIComponent(value)}; path=${basePath}; max-age=${value ? YEAR_S : 0}; samesite=lax`;
}
