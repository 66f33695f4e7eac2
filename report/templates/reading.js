// Shows one caption at a time, keeps the answers in the browser, and saves them as a file of ratings.
(() => {
  "use strict";
  const reading = document.getElementById("reading"), sheet = reading.dataset.sheet;
  const find = (id) => document.getElementById(id);
  const items = [...document.querySelectorAll("#captions li")];
  const pictures = [...document.querySelectorAll("#caption img")];
  const questions = [...document.querySelectorAll("fieldset")];
  const [place, done] = document.querySelectorAll("#place span");
  const rater = find("rater"), saved = find("saved");

  // One entry an item, so that two tabs do not overwrite each other: "10-" is yes, no, and no answer yet.
  const memory = new Map();
  const key = (name) => "memeloom reading " + sheet + " " + name;
  const load = (name) => {
    try { return localStorage.getItem(key(name)); } catch { return memory.get(name) ?? null; }
  };
  const store = (name, value) => {
    try { localStorage.setItem(key(name), value); } catch {
      memory.set(name, value);
      saved.textContent = "This browser keeps no answers: save them before you close the page.";
    }
  };
  const answers = (item) => {
    const kept = load(item.dataset.number) ?? "";
    return questions.map((_, at) => ("01".includes(kept[at] ?? "-") ? kept[at] : "-"));
  };
  const complete = (item) => !answers(item).includes("-");

  let at = Math.max(items.findIndex((item) => !complete(item)), 0);
  const count = () => {
    const rated = items.filter(complete).length;
    done.textContent = rated + " of " + items.length + " rated";
    document.querySelector(".done i").style.width = (100 * rated) / items.length + "%";
  };
  const check = () => {
    const given = answers(items[at]);
    questions.forEach((question, index) => {
      for (const choice of question.querySelectorAll("input")) choice.checked = choice.value === given[index];
    });
  };
  const show = (to) => {
    at = Math.min(Math.max(to, 0), items.length - 1);
    items.forEach((item, index) => { item.hidden = index !== at; });
    for (const picture of pictures) picture.hidden = picture.dataset.template !== items[at].dataset.template;
    place.textContent = "Caption " + items[at].dataset.number + " of " + items.length;
    find("previous").disabled = at === 0;
    find("next").disabled = at === items.length - 1;
    check();
  };
  const answer = (index, value) => {
    const given = answers(items[at]);
    given[index] = value;
    store(items[at].dataset.number, given.join(""));
    check();
    count();
  };
  const rest = () => answers(items[at]).forEach((given, index) => { if (given === "-") answer(index, "0"); });

  const save = () => {
    rater.value = rater.value.trim() || name();
    store("rater", rater.value);
    const rated = items.filter(complete);
    const lines = rated.map((item) => {
      const given = answers(item).map((value) => value === "1");
      const named = Object.fromEntries(questions.map((question, index) => [question.dataset.question, given[index]]));
      return JSON.stringify({ number: Number(item.dataset.number), ...named, rater: rater.value, sheet }) + "\n";
    });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(lines, { type: "application/jsonl" }));
    link.download = "ratings.jsonl";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    const begun = items.filter((item) => !complete(item) && answers(item).some((given) => given !== "-"));
    saved.textContent = "Saved ratings of " + rated.length + (rated.length === 1 ? " caption." : " captions.")
      + (begun.length ? " Left out, with open questions: " + begun.map((item) => item.dataset.number).join(", ") + "." : "");
  };
  const name = () => Array.from(crypto.getRandomValues(new Uint8Array(4)), (n) => String.fromCharCode(97 + (n % 26))).join("");

  const keys = { n: () => show(at + 1), p: () => show(at - 1), 0: rest };
  questions.forEach((question, index) => {
    keys[index + 1] = () => answer(index, answers(items[at])[index] === "1" ? "0" : "1");
    question.addEventListener("change", ({ target }) => answer(index, target.value));
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target === rater || !Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  });
  find("previous").addEventListener("click", keys.p);
  find("next").addEventListener("click", keys.n);
  find("rest").addEventListener("click", rest);
  find("save").addEventListener("click", save);
  rater.addEventListener("change", () => store("rater", rater.value.trim()));
  addEventListener("storage", () => { check(); count(); });

  rater.value = load("rater") ?? "";
  if (!rater.value) { rater.value = name(); store("rater", rater.value); }
  reading.hidden = false;
  show(at);
  count();
})();
