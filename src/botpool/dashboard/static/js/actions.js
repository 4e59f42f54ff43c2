/** What people can do here. Each says what it will do; what hurts a bot asks its question first. */
import { inDialog } from "./dialogs.js";
import { make } from "./dom.js";
import { ask } from "./http.js";
import { hasBot, isBeforeTheCall, isFinal } from "./states.js";
import { announce } from "./toasts.js";
import { spoken } from "./wording.js";
import { learn } from "./world.js";

const post = (path) => ask(path, { method: "POST" });

/** The actions for a bot as it is now. */
export function botActions(bot) {
  if (isFinal(bot.status)) return [];
  const early = isBeforeTheCall(bot.status);
  return [
    {
      verb: early ? "Cancel" : "Ask to leave",
      question: early ? `Cancel bot ${bot.id}?` : `Ask bot ${bot.id} to leave?`,
      answer: early ? "Cancel the bot" : "Ask to leave",
      does: early
        ? `Bot ${bot.id} has not joined yet. It is cancelled, and its place goes to the next.`
        : `Bot ${bot.id} is told to leave with its next heartbeat. ` +
          "If it has not left after 30 seconds, it is stopped.",
      hurts: true,
      off: bot.status === "LEAVING" && "It has been asked to leave already.",
      work: () => ask(`v1/bots/${bot.id}`, { method: "DELETE" }),
      tell: (answer) => `Bot ${bot.id}: ${spoken(answer.bot.status)}`,
    },
  ];
}

/** The actions for a slot as it is now. */
export function slotActions(slot) {
  const { id, name, assignedBotId: bot } = slot;
  const occupied = hasBot(slot.status);
  const going = slot.status === "deleting" && "It is being deleted.";
  const tell = (answer) =>
    `${name}: ${answer.slot.cordoned ? "cordoned, " : ""}${answer.slot.status}`;
  return [
    {
      verb: slot.cordoned ? "Uncordon" : "Cordon",
      does: slot.cordoned
        ? "Lets it take bots again."
        : "Lets it finish its bot and take no other.",
      off: going,
      work: () => post(`v1/slots/${id}/${slot.cordoned ? "uncordon" : "cordon"}`),
      tell,
    },
    {
      verb: "Recover",
      question: `Recover ${name}?`,
      does: occupied
        ? `Resets the slot now. Bot ${bot} is tried again if it is still deploying; ` +
          "if it runs, it fails."
        : "Stops whatever runs there, sees that it has stopped, and makes the slot ready.",
      hurts: occupied,
      off: going,
      work: () => post(`v1/slots/${id}/recover`),
      tell,
    },
    {
      verb: "Release",
      question: `Release ${name}?`,
      does:
        `Takes the slot away from bot ${bot}, which fails with the code “operator”. ` +
        "Its container is stopped.",
      hurts: true,
      off: going || (!occupied && "There is no bot in it."),
      work: () => post(`v1/slots/${id}/release`),
      tell,
    },
    {
      verb: "Delete",
      question: `Delete ${name}?`,
      does: occupied
        ? `Deletes the slot and its container. Bot ${bot} fails.`
        : "Deletes the slot and its container. The pool makes another when it needs one, " +
          "which starts cold.",
      hurts: true,
      off: going,
      work: () => ask(`v1/slots/${id}${occupied ? "?force=true" : ""}`, { method: "DELETE" }),
      tell: () => `${name} is being deleted`,
    },
  ];
}

export function poolActions(pool) {
  const { platform, drained } = pool;
  return [
    {
      verb: drained ? "Undrain" : "Drain",
      question: `Drain ${platform}?`,
      does: drained
        ? "Opens the pool again: its slots are uncordoned and take bots."
        : `Cordons all slots of ${platform} and admits nobody new: requests are refused ` +
          "with 503. Bots that run stay; " +
          "the queue waits, or expires.",
      hurts: !drained,
      work: () => post(`v1/pools/${platform}/${drained ? "undrain" : "drain"}`),
      tell: () => `${platform} is ${drained ? "open again" : "drained"}`,
    },
  ];
}

/** A button that does it. `after` is told the answer, so that the result is seen at once. */
export function actionButton(action, after = () => {}) {
  const button = make("button", {
    type: "button",
    class: action.hurts ? "quiet hurts" : "quiet",
    disabled: Boolean(action.off),
    title: action.off || action.does,
    text: action.verb,
    click: () => perform(action, after),
  });
  return button;
}

async function perform(action, after) {
  let answer;
  const work = async () => {
    answer = await action.work();
  };
  if (action.hurts) {
    const { question, does, verb, answer: yes = verb } = action;
    const content = make("p", { text: does });
    if (!(await inDialog({ title: question, content, verb: yes, hurts: true, work }))) return;
  } else {
    try {
      await work();
    } catch (error) {
      announce(`${action.verb}: ${error.message}`, "bad");
      return;
    }
  }
  learn(answer);
  announce(action.tell(answer));
  after(answer);
}
