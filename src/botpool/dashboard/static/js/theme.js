/** Light or dark: as the system has it, until somebody says otherwise. Runs before the first
 * paint, so that nobody is blinded by the wrong one for a moment. */
(() => {
  const ORDER = ["auto", "light", "dark"];
  const SIGNS = { auto: "◐", light: "☀", dark: "☾" };
  const stored = localStorage.getItem("botpool.theme");
  let theme = ORDER.includes(stored) ? stored : "auto";
  const apply = () => {
    document.documentElement.dataset.theme = theme;
  };
  apply();
  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const label = () => {
      button.textContent = SIGNS[theme];
      button.setAttribute("aria-label", `Colours: ${theme}. Change them.`);
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
