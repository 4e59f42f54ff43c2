/** The colour scheme: that of the system, light or dark. Runs before the first paint, so that the
 * page does not flash in the wrong colours. */
(() => {
  const ORDER = ["auto", "light", "dark"];
  const ICONS = { auto: "◐", light: "☀", dark: "☾" };
  const stored = localStorage.getItem("botpool.theme");
  let theme = ORDER.includes(stored) ? stored : "auto";
  const apply = () => {
    document.documentElement.dataset.theme = theme;
  };
  apply();
  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const label = () => {
      button.textContent = ICONS[theme];
      button.setAttribute("aria-label", `Colours: ${theme}. Change.`);
      button.title = `Colours: ${theme}`;
    };
    label();
    button.addEventListener("click", () => {
      theme = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length];
      localStorage.setItem("botpool.theme", theme);
      apply();
      label();
    });
  });
})();
