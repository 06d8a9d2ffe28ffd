// The cases of a run: filtered, searched, opened one by one.
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const words = read("words"), { cases, parts } = read("data");
  const list = document.getElementById("cases"), search = document.getElementById("search");
  const known = (key) => Object.prototype.hasOwnProperty.call(words, key);

  const say = (key, ...values) => {
    let text = known(key) ? words[key][document.documentElement.dataset.lang === "zh" ? 1 : 0] : key;
    for (const value of values) text = text.replace("{}", () => value);
    return text;
  };
  // Text from data only ever becomes a text node.
  const make = (tag, name, text) => {
    const element = document.createElement(tag);
    if (name) element.className = name;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const number = (value) => String(Math.round(value * 1000) / 1000);
  const winner = (name) => name === undefined ? say("none") : name === "TIE" ? say("tie") : say("wins", name);
  const outcome = (verdict) => verdict.class !== undefined ? say("class", verdict.class)
    : verdict.reason === "abstained" ? say("abstained")
    : verdict.score !== undefined ? say("score", number(verdict.score)) : winner(verdict.winner);
  const labelled = (label) => typeof label === "number" ? number(label) : winner(label);

  const block = (title, text, name) => {
    const box = make("div");
    box.append(make("h3", "", title), make("div", "text " + (name || ""), text));
    box.lastChild.dir = "auto";
    return box;
  };
  const joined = (parts) => parts.filter(Boolean).join(" · ");
  const byCriterion = (criteria) => Object.entries(criteria || {}).map(([name, value]) => name + " " + number(value)).join(", ");
  const vote = (cast) => typeof cast === "number" ? number(cast) : cast === null ? say("none") : cast === "TIE" ? say("tie") : cast;
  const voted = (votes) => {
    const cast = Object.entries(votes).map(([judge, one]) => judge + " " + vote(one)).join(", ");
    return cast && say("votes") + ": " + cast;
  };

  const responseTitle = (response) => joined([
    say("response") + " " + response.name, response.model,
    response.grade !== undefined && say("grade") + " " + number(response.grade),
    response.class !== undefined && say("label") + ": " + response.class,
  ]);
  const verdictLine = (verdict) => joined([
    verdict.unit + ": " + outcome(verdict), verdict.reason !== "abstained" && say(verdict.reason),
    verdict.first !== undefined && [verdict.first, verdict.second].concat(verdict.third || []).map(winner).join(" / "),
    verdict.margin !== undefined && say("margin") + " " + number(verdict.margin),
    verdict.confidence !== undefined && say("confidence") + " " + number(verdict.confidence),
    verdict.label !== undefined && say("label") + ": " + labelled(verdict.label),
    verdict.class_label !== undefined && say("label") + ": " + verdict.class_label,
    byCriterion(verdict.criteria), voted(verdict.votes || {}),
  ]);
  // A checklist: one line for each item, with its answer, the criterion and the judge's reason.
  const checklist = (items) => {
    const list = make("ul", "checklist");
    for (const item of items) {
      const line = make("li", "item " + (item.answer || "unknown"));
      line.dir = "auto";
      line.append(make("strong", "", say(item.answer || "none")), " " + joined([
        item.criterion, item.points !== undefined && say("points", number(item.points)),
        item.why && say(item.why), item.label !== undefined && say("label") + ": " + say(item.label),
      ]));
      if (item.explanation) line.append(make("div", "text", item.explanation));
      list.append(line);
    }
    return list;
  };
  const judgmentTitle = (judgment) => joined([
    say("pass", judgment.shown), judgment.arbiter ? say("arbiter") + " " + judgment.arbiter : judgment.judge,
    judgment.sample !== undefined && say("sample") + " " + judgment.sample,
    say(judgment.status),
    judgment.ranking,
    judgment.class !== undefined && say("class", judgment.class),
    judgment.value !== undefined && say("margin") + " " + number(judgment.value),
    judgment.confidence !== undefined && say("confidence") + " " + number(judgment.confidence),
    byCriterion(judgment.criteria), judgment.asked_items,
    judgment.read_by && say("read_by") + " " + judgment.read_by,
    judgment.stored && say("stored"),
  ]);

  // A prompt stands here in pieces: its own words, words that many prompts share, and the texts of its case.
  const piece = (part, item) => typeof part === "string" ? part : typeof part === "number" ? parts[part]
    : part[0] === "responses" ? item.responses[part[1]].text : item[part[0]];
  const asked = (judgment, item) => {
    const details = make("details", "asked"), body = make("div");
    details.append(make("summary", "", say("asked")), body);
    details.addEventListener("toggle", () => {
      if (!details.open || body.hasChildNodes()) return;
      for (const [role, ...pieces] of judgment.asked)
        body.append(block(role, pieces.map((part) => piece(part, item)).join(""), "raw"));
      if (judgment.asks > 1) body.append(make("p", "line", say("first_ask", judgment.asks)));
      body.append(make("p", "line key", say("key") + " " + judgment.key));
    });
    return details;
  };
  const judgmentBox = (judgment, item) => {
    const box = block(judgmentTitle(judgment), judgment.text === undefined ? say("none") : judgment.text, "raw");
    if (judgment.error) box.append(make("p", "line error", say("error") + ": " + judgment.error));
    if (judgment.thinking) box.append(block(say("thinking"), judgment.thinking, "raw"));
    if (judgment.asked) box.append(asked(judgment, item));
    return box;
  };

  const fill = (box, item) => {
    box.replaceChildren();
    for (const key of ["prompt", "context", "reference", "cycles"])
      if (item[key]) box.append(block(say(key), item[key]));
    const won = new Set(item.verdicts.length === 1 ? [item.verdicts[0].winner] : []);
    const texts = make("div", "side");
    for (const response of item.responses)
      texts.append(block(responseTitle(response), response.text, won.has(response.name) ? "won" : ""));
    box.append(texts, make("h3", "", say("verdict")));
    for (const verdict of item.verdicts) {
      box.append(make("p", "line", verdictLine(verdict)));
      if (verdict.items) box.append(checklist(verdict.items));
    }
    if (item.short) {
      box.append(make("p", "line cut", say("cut")));
      return;
    }
    const raw = make("div", "side");
    raw.append(...item.judgments.map((judgment) => judgmentBox(judgment, item)));
    box.append(make("h3", "", say("raw")), raw);
  };

  const row = (item) => {
    const details = make("details", "case"), summary = make("summary"), body = make("div", "body");
    const verdicts = item.verdicts.length > 3 ? item.verdicts.slice(0, 3) : item.verdicts;
    const text = verdicts.map((v) => (item.verdicts.length > 1 ? v.unit + ": " : "") + outcome(v)).join(", ");
    const more = item.verdicts.length > 3 ? ", …" : "";
    const label = item.label === undefined ? "" : " · " + say("label") + ": " + labelled(item.label);
    summary.append(make("span", "id", item.id), make("span", "ask", item.prompt.slice(0, 300)));
    summary.append(make("span", "outcome" + (item.flags.length ? " marks" : ""), text + more + label));
    details.append(summary, body);
    details.addEventListener("toggle", () => { if (details.open && !body.hasChildNodes()) fill(body, item); });
    return details;
  };

  const texts = (item) => [item.id, item.prompt, item.context, item.reference]
    .concat(item.responses.map((r) => r.text), (item.judgments || []).map((j) => j.text)).filter(Boolean).join("\n").toLowerCase();

  const show = () => {
    const flag = document.querySelector("input[name=flag]:checked").value, wanted = search.value.trim().toLowerCase();
    const found = cases.filter((item) => (flag === "all" || item.flags.includes(flag)) && (!wanted || texts(item).includes(wanted)));
    list.replaceChildren(...found.map(row));
    document.getElementById("shown").textContent = found.length ? say("shown", found.length, cases.length) : say("nothing");
  };
  for (const input of document.querySelectorAll("input[name=flag]")) input.addEventListener("change", show);
  search.addEventListener("input", show);
  document.addEventListener("speak", show);
  show();
})();
