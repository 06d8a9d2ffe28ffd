// The cases of a run: filtered, searched, opened one by one.
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const words = read("words"), { cases, parts, images = {} } = read("data");
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
    box.append(make("h3", "", title), make("div", "text " + (name || "")));
    box.lastChild.append(...pictures.nodes(text, images));
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

  // A conversation: its turns or steps are folded, but not those that are judged or that a judge names as evidence.
  const HEADING = /^\[(?:turn|step) (\d+)(, judged)?: (call |result of |)([^[\]\n]+)\]$/gm;
  const heading = (kind, name) => kind ? say(kind === "call " ? "call" : "result", name) : name;
  const turnsOf = (text) => {
    const found = [...text.matchAll(HEADING)], turns = [];
    found.forEach((match, index) => {
      const end = index + 1 < found.length ? found[index + 1].index : text.length, number = Number(match[1]);
      if (!turns.length || turns[turns.length - 1].number !== number) turns.push({ number, judged: false, parts: [] });
      const turn = turns[turns.length - 1];
      turn.judged = turn.judged || match[2] !== undefined;
      turn.parts.push([heading(match[3], match[4]), text.slice(match.index + match[0].length, end).trim()]);
    });
    return turns;
  };
  const folded = (name, title, marks, content, open) => {
    const details = make("details", name), summary = make("summary");
    summary.append(make("strong", "", title), ...marks.map((mark) => make("span", "marked", say(mark))));
    const body = make("div");
    const build = () => { if (details.open && !body.hasChildNodes()) body.append(...content()); };
    details.append(summary, body);
    details.addEventListener("toggle", build);
    details.open = open;
    if (open) build();
    return details;
  };
  const turnBox = (turn, item, cited, judged) => {
    const marks = [judged && "target", cited.has(turn.number) && "cited"].filter(Boolean);
    const parts = () => turn.parts.map(([name, text]) => block(name, text));
    const box = folded("turn" + (marks.length ? " told" : ""), say(item.unit, turn.number), marks, parts, marks.length > 0);
    const glance = make("span", "ask", turn.parts.map(([name, text]) => name + ": " + pictures.short(text).slice(0, 80)).join(" · ").slice(0, 240));
    box.firstChild.append(glance);
    return box;
  };
  // Runs of more than NEAR turns without marks are folded as one.
  const NEAR = 3;
  const conversation = (key, text, item, cited, whole) => {
    const turns = turnsOf(text), box = make("div", "turns"), first = text.search(HEADING);
    if (!turns.length) return block(say(key), text);
    if (first > 0) box.append(make("div", "text", pictures.short(text.slice(0, first)).trim()));
    const draw = (turn) => turnBox(turn, item, cited, turn.judged || whole && turns.length === 1);
    const plain = (turn) => turn !== undefined && !turn.judged && !cited.has(turn.number);
    for (let at = 0; at < turns.length;) {
      let end = at;
      while (plain(turns[end])) end += 1;
      const rest = turns.slice(at, Math.max(at, end - NEAR)), range = [rest[0], rest[rest.length - 1]];
      if (rest.length > NEAR)
        box.append(folded("run", say(item.unit + "s", range[0].number, range[1].number), [], () => rest.map(draw), false));
      else box.append(...rest.map(draw));
      box.append(...turns.slice(at + rest.length, end).map(draw));
      if (end < turns.length) box.append(draw(turns[end]));
      at = end + 1;
    }
    const outer = make("div");
    outer.append(make("h3", "", say(key)), box);
    return outer;
  };

  const fill = (box, item) => {
    box.replaceChildren();
    const cited = new Set((item.judgments || []).flatMap((judgment) => judgment.cited || []));
    for (const key of ["prompt", "context", "reference", "cycles"])
      if (item[key]) box.append(item.unit ? conversation(key, item[key], item, cited) : block(say(key), item[key]));
    const won = new Set(item.verdicts.length === 1 ? [item.verdicts[0].winner] : []);
    const texts = make("div", "side");
    for (const response of item.responses)
      texts.append(item.unit ? conversation(responseTitle(response), response.text, item, cited, true)
        : block(responseTitle(response), response.text, won.has(response.name) ? "won" : ""));
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
    const ask = item.unit && item.responses.length === 1 ? item.responses[0].text : item.prompt;
    summary.append(make("span", "id", item.id), make("span", "ask", pictures.short(ask).slice(0, 300)));
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
