// One case at a time: shown as text, answered by a key or a button, and stored before the next one appears.
(() => {
  const find = (id) => document.getElementById(id);
  const read = (id) => JSON.parse(find(id).textContent);
  const words = read("words"), question = read("question");
  const panel = find("case"), choices = find("choices"), note = find("note"), problem = find("problem");
  let state = null, busy = false;
  choices.classList.toggle("pair", question.kind === "pair");

  const say = (key, ...values) => {
    let text = words[key][document.documentElement.dataset.lang === "zh" ? 1 : 0];
    for (const value of values) text = text.replace("{}", () => value);
    return text;
  };
  // Text from data only ever becomes a text node.
  const make = (tag, name, ...content) => {
    const element = document.createElement(tag);
    if (name) element.className = name;
    element.append(...content);
    return element;
  };

  // What each key answers: 1, 2 and 0 for pairs, the first free letter of a class, or a free digit, digits for scores.
  const keys = new Map();
  const bind = (answer, candidates) => {
    const key = candidates.find((one) => !keys.has(one));
    if (key !== undefined) keys.set(key, answer);
  };
  if (question.kind === "pair") for (const [key, answer] of [["1", "A"], ["0", "TIE"], ["2", "B"]]) keys.set(key, answer);
  else if (question.kind !== "items") for (const option of question.options) {
    if (question.kind === "grade") keys.set(String(option % 10), option);
    else bind(option, [...option.toLowerCase().replace(/[^a-z0-9]/g, ""), ..."123456789"]);
  }
  const named = (answer) => question.kind !== "pair" ? String(answer)
    : answer === "TIE" ? say("equal") : say("response") + (answer === "A" ? " 1" : " 2");
  const answers = () => question.kind === "pair" ? ["A", "TIE", "B"] : question.kind === "items" ? [] : question.options;

  const block = (title, text) => {
    const box = make("div", "", make("h2", "", title), make("div", "text", ...pictures.nodes(text, state.images || {})));
    box.lastChild.dir = "auto";
    box.lastChild.tabIndex = 0;
    return box;
  };
  const showTexts = ({ texts, items }) => {
    const shared = ["prompt", "context", "reference"].filter((name) => name in texts);
    const responses = ["response", "response_a", "response_b"].filter((name) => name in texts);
    const title = (index) => say("response") + (responses.length > 1 ? " " + (index + 1) : "");
    panel.replaceChildren(
      ...shared.map((name) => block(say(name), texts[name])),
      make("div", "side", ...responses.map((name, index) => block(title(index), texts[name]))),
    );
    if (question.kind === "items") panel.append(make("ul", "items", ...items.map(item)));
  };
  const item = ([id, criteria], index) => {
    const tick = make("input");
    tick.type = "checkbox";
    tick.checked = state.answer[id] === "met";
    tick.addEventListener("change", () => { state.answer[id] = tick.checked ? "met" : "not_met"; });
    const groups = make("small", "", criteria.slice(0, -1).join(" › "));
    const text = make("span", "", ...(criteria.length > 1 ? [groups] : []), criteria[criteria.length - 1]);
    text.dir = "auto";
    return make("li", "", make("label", "", tick, ...(index < 9 ? [make("kbd", "", String(index + 1))] : []), text));
  };

  const button = (text, key, act) => {
    const element = make("button", "", ...(key ? [make("kbd", "", key)] : []), text);
    element.type = "button";
    element.addEventListener("click", act);
    return element;
  };
  const showChoices = () => {
    const key = (answer) => [...keys].find(([, known]) => known === answer)?.[0];
    choices.replaceChildren(...answers().map((answer) => {
      const choice = button(named(answer), key(answer), () => label(answer));
      choice.classList.toggle("picked", state.answer[""] === answer);
      choice.setAttribute("aria-pressed", state.answer[""] === answer);
      return choice;
    }));
    if (answers().length) return;
    if (question.kind === "grade") {
      const number = make("input");
      Object.assign(number, { type: "number", step: "any", id: "number" });
      if (question.low !== undefined) {
        Object.assign(number, { min: question.low, max: question.high });
        number.placeholder = say("range", question.low, question.high);
      }
      number.setAttribute("aria-label", number.placeholder || "0");
      number.value = state.answer[""] ?? "";
      choices.append(number);
      number.focus({ preventScroll: true });
    }
    choices.append(button(say("save"), "Enter", save));
  };
  const save = () => {
    if (question.kind === "items") send("label", { answer: state.answer });
    else if (find("number")?.value) label(Number(find("number").value));
  };

  const show = () => {
    if (!state) return;
    const over = state.ended || state.at === state.total;
    find("answer").hidden = Boolean(state.ended);
    Object.assign(find("bar"), { max: state.total, value: state.labeled });
    find("count").textContent = [say("progress", state.labeled, state.total)]
      .concat(state.skipped ? say("skipped", state.skipped) : []).join(" · ");
    for (const id of ["note", "next"]) find(id).hidden = over;
    find("next").replaceChildren(say(state.unlabeled ? "skip" : "forward") + " ", make("kbd", "", "→"));
    note.placeholder = note.ariaLabel = say("note");
    if (!over) {
      if (question.kind === "items") for (const [id] of state.items) state.answer[id] ??= "not_met";
      showTexts(state);
      showChoices();
      return;
    }
    panel.replaceChildren(make("p", "", say(state.ended ? "ended" : "none_left")));
    choices.replaceChildren(...(state.skipped ? [button(say("again"), "", () => send("again"))] : []));
  };

  // Nothing is sent twice: a held key repeats, and an answer may take its time.
  const send = async (action, more) => {
    if (busy || state?.ended) return;
    panel.ariaBusy = busy = true;
    const body = JSON.stringify({ do: action, at: state?.at, note: state?.at === state?.total ? "" : note.value, ...more });
    try {
      const reply = await fetch(location.pathname, { method: "POST", headers: { "Content-Type": "application/json" }, body });
      const result = await reply.json();
      problem.hidden = reply.ok;
      if (reply.ok) {
        const answer = Object.assign(Object.create(null), result.answer);  // an item may be named __proto__
        state = { ...result, answer, unlabeled: !Object.keys(answer).length };
        note.value = state.note || "";
        panel.focus({ preventScroll: true });
        show();
        scrollTo(0, 0);
      } else problem.textContent = say("failed", result.error);
    } catch {
      problem.textContent = say("lost");
      problem.hidden = false;
      find("answer").hidden = false;
    }
    panel.ariaBusy = busy = false;
  };
  const label = (answer) => send("label", { answer: { "": answer } });

  const pressed = (event) => {
    const { key, target } = event;
    if (key === "Escape") return () => target.blur();
    if (target === note) return null;
    if (key === "Enter") return target.matches("button, summary") || state.at === state.total ? null : save;
    if (target.type === "number") return null;
    if (key === "ArrowLeft") return () => send("back");
    if (key === "/") return () => note.focus();
    if (state.at === state.total) return null;
    if (key === "ArrowRight") return () => send("next");
    const tick = question.kind === "items" && /^[1-9]$/.test(key) && panel.querySelectorAll("input")[key - 1];
    if (tick) return () => tick.click();
    return keys.has(key.toLowerCase()) ? () => label(keys.get(key.toLowerCase())) : null;
  };
  document.addEventListener("keydown", (event) => {
    if (!state || event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.isComposing) return;
    const act = pressed(event);
    if (!act) return;
    event.preventDefault();
    act();
  });
  document.addEventListener("speak", show);
  find("back").addEventListener("click", () => send("back"));
  find("next").addEventListener("click", () => send("next"));
  find("finish").addEventListener("click", () => send("finish"));
  send("open");
})();
