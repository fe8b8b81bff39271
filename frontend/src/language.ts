/** The language of the page, which is that of numbers and times, too. */
export const language = document.documentElement.lang || "en";

/** The form of it that the browser prefers, which is that of dates: "en-GB". */
export const regional = navigator.languages.find((one) => one.startsWith(`${language}-`)) ?? language;
