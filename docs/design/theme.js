// For looking at the pages: `overview.html?theme=dark`. The console takes the theme from a cookie, on the server.
const theme = new URLSearchParams(location.search).get("theme");
if (theme) document.documentElement.dataset.theme = theme;
