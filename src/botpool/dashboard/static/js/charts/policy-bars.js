/** What each policy reaches and costs: the share of bots on time beside its hot slot hours. */
import { html, setStyle, syncChildren } from "../dom.js";
import { preciseShare } from "../format.js";

export function policyBars() {
  const list = html("ul", { class: "policy-bars" });
  const element = html(
    "figure",
    { class: "card" },
    html(
      "figcaption",
      { class: "soft" },
      html("b", { text: "Bots on time" }),
      " above, ",
      html("b", { text: "hot slot hours per day" }),
      " below",
    ),
    list,
  );

  return {
    element,
    show({ policies, recommended }) {
      const most = Math.max(1, ...policies.map((policy) => policy.hotSlotHoursPerDay ?? 0));
      syncChildren(list, policies, ({ name }) => name, newRow, (row, policy) => {
        row.classList.toggle("recommended", policy.name === recommended);
        const [name, share, hours] = row.children;
        name.textContent = policy.name;
        fill(share, policy.onTimeShare, preciseShare(policy.onTimeShare));
        const hot = policy.hotSlotHoursPerDay;
        fill(hours, (hot ?? 0) / most, hot === null ? "not recorded" : `${hot.toFixed(0)} h`);
      });
    },
  };
}

const newRow = () =>
  html("li", {}, html("span", { class: "name" }), bar("on-time"), bar("hot"));

const bar = (part) =>
  html("span", { class: "track", "data-part": part }, html("i"), html("b"));

function fill(track, share, text) {
  const [column, label] = track.children;
  setStyle(column, "--share", String(Math.round(1000 * share) / 1000));
  label.textContent = text;
}
