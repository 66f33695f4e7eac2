// The feed in the browser. Without this script the page shows ten memes, with forms to vote and a link to the next ones.
"use strict";
const stored = (store, key, value) => {
  try {
    if (value === undefined) return JSON.parse(store.getItem(key)) ?? {};
    store.setItem(key, JSON.stringify(value));
  } catch { /* no storage: nothing is kept */ }
  return {};
};
const SETTINGS = "memeloom.settings", VOTES = "memeloom.votes";
const settings = { keys: true, theme: "", ...stored(localStorage, SETTINGS) };
const keep = (change) => stored(localStorage, SETTINGS, Object.assign(settings, change));
const root = document.documentElement;
const dress = () => settings.theme ? (root.dataset.theme = settings.theme) : delete root.dataset.theme;
root.classList.add("js");
dress();
if (location.pathname === "/" && !location.search && settings.template) location.replace("/?template=" + settings.template);

addEventListener("DOMContentLoaded", () => {
  const $ = (id) => document.getElementById(id);
  const feed = $("feed"), endless = feed?.dataset.template !== undefined;
  if (!feed) return;

  // Messages. The live region is read out; the toast also offers to undo the last vote.
  let fading;
  const say = (text) => { $("live").textContent = text; };
  const toast = (text, undoable = false) => {
    $("toast").firstElementChild.textContent = text;
    $("undo").hidden = !undoable;
    $("toast").hidden = false;
    say(text);
    clearTimeout(fading);
    fading = setTimeout(() => { $("toast").hidden = true; }, 6000);
  };
  const offline = (yes) => { $("offline").hidden = !yes; };

  class Refused extends Error {
    constructor(status, detail, wait) { super(detail); Object.assign(this, { status, wait }); }
  }
  // Sends a request. Throws Refused for an error status, TypeError if there is no connection.
  const send = async (method, path, body) => {
    const form = body instanceof FormData;
    const headers = body && !form ? { "Content-Type": "application/json" } : {};
    let answer;
    try {
      answer = await fetch(path, { method, headers, body: form || !body ? body : JSON.stringify(body) });
    } catch (error) {
      offline(true);
      throw error;
    }
    offline(false);
    const said = await answer.json().catch(() => ({}));
    if (answer.ok) return said;
    throw new Refused(answer.status, said.detail || "The server has an error.", +answer.headers.get("Retry-After") || 5);
  };
  const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1).replace(/\.?$/, ".");
  const complain = (error) => toast(error instanceof Refused ? sentence(error.message) : "There is no connection.");

  // The memes of this session in order. h: height of the card and the gap below it. meme: null when it is far away.
  const items = [], known = new Map();
  const add = (meme, h) => {
    if (known.has(meme.id)) return false;
    const item = { id: meme.id, h: h || feed.clientWidth * meme.height / meme.width + 130, meme: meme.name === undefined ? null : meme };
    known.set(item.id, item);
    items.push(item);
    return true;
  };
  const card = (id) => $("m" + id);
  const number = (button) => +button.querySelector("b").textContent;
  const read = (node) => {
    const img = node.querySelector("img"), link = node.querySelector("h2 a"), [like, dislike] = node.querySelectorAll(".votes button");
    const pressed = (button) => button.getAttribute("aria-pressed") === "true";
    return {
      id: node.dataset.id, name: link.textContent, page: link.getAttribute("href"), alt: img.alt, picture: img.getAttribute("src"),
      width: img.width && +img.getAttribute("width"), height: +img.getAttribute("height"), likes: number(like), dislikes: number(dislike),
      mine: pressed(like) ? 1 : pressed(dislike) ? -1 : 0, template: node.querySelector(".download").download.slice(0, -25),
    };
  };
  const paint = (node, meme) => {
    for (const [name, value, count] of [["like", 1, meme.likes], ["dislike", -1, meme.dislikes]]) {
      const button = node.querySelector("." + name);
      button.querySelector("b").textContent = count;
      button.setAttribute("aria-pressed", meme.mine === value);
    }
  };
  const build = (item) => {
    const { meme } = item;
    if (!meme || meme.gone) {
      const empty = document.createElement("div");
      empty.className = "empty";
      empty.id = "m" + item.id;
      if (meme) Object.assign(empty, { textContent: "This meme was removed.", className: "empty gone" });
      else empty.style.height = item.h - 16 + "px";
      return empty;
    }
    const node = $("card").content.firstElementChild.cloneNode(true);
    const link = node.querySelector("h2 a"), img = node.querySelector("img"), load = node.querySelector(".download");
    node.id = "m" + meme.id;
    node.dataset.id = meme.id;
    link.parentNode.id = "t" + meme.id;
    node.setAttribute("aria-labelledby", "t" + meme.id);
    link.textContent = meme.name;
    link.href = meme.page;
    Object.assign(img, { alt: meme.alt, width: meme.width, height: meme.height, src: meme.picture });
    Object.assign(load, { href: meme.picture, download: `${meme.template}-${meme.id}.jpg` });
    node.querySelector(".report").href = meme.page + "#report";
    paint(node, meme);
    return node;
  };

  // The cards around the screen are in the page; two boxes as high as all others together stand for those.
  const BEHIND = 3000, AHEAD = 5000, REMEMBERED = 60;
  let first = 0, last = 0;
  const sum = (from, to) => { let h = 0; for (let n = from; n < to; n++) h += items[n].h; return h; };
  const measure = () => {
    for (let n = first; n < last; n++) items[n].h = card(items[n].id)?.getBoundingClientRect().height + 16 || items[n].h;
  };
  const mount = (from, to) => {
    const held = [];
    for (let n = first; n < last; n++) {
      const node = card(items[n].id);
      if (!node) continue;
      if (n < from || n >= to) node.remove();
      else if (node.classList.contains("empty") && !node.matches(".gone") && items[n].meme) node.replaceWith(build(items[n]));
    }
    let before = $("above");
    for (let n = from; n < to; n++) {
      const node = card(items[n].id) ?? build(items[n]);
      if (before.nextElementSibling !== node) before.after(node);
      if (!items[n].meme) held.push(items[n]);
      before = node;
    }
    [first, last] = [from, to];
    $("above").style.height = sum(0, from) + "px";
    $("below").style.height = sum(to, items.length) + "px";
    items.forEach((item, n) => { if (n < from - REMEMBERED || n > to + REMEMBERED) item.meme = null; });
    if (held.length) recall(held);
  };
  const settle = () => {
    measure();
    let top = feed.getBoundingClientRect().top, from = 0, to = 0;
    const start = top;
    for (; from < items.length && top + items[from].h < -BEHIND; from++) top += items[from].h;
    for (to = from; to < items.length && top < innerHeight + AHEAD; to++) top += items[to].h;
    // What the visitor looks at stays where it is, whatever is added above it.
    let anchor = null, was = 0;
    for (let n = Math.max(first, from); n < Math.min(last, to) && !anchor; n++) {
      const node = card(items[n].id), box = node.getBoundingClientRect();
      if (box.bottom > 0) [anchor, was] = [node, box.top];
    }
    const id = anchor?.id;
    mount(from, to);
    const shift = id ? $(id).getBoundingClientRect().top - was : feed.getBoundingClientRect().top - start;
    if (Math.abs(shift) >= 1) scrollBy(0, shift);
    if (items.length - place().index <= 10) more();
  };
  // The card at the top of the screen, and how far it is scrolled.
  const place = () => {
    for (let n = first; n < last; n++) {
      const box = card(items[n].id)?.getBoundingClientRect();
      if (box && box.bottom > 72) return { index: n, offset: Math.round(box.top) };
    }
    return { index: Math.max(0, last - 1), offset: 72 };
  };
  let recalling = false;
  const recall = async (held) => {
    if (recalling) return;
    recalling = true;
    try {
      const ids = held.slice(0, 50).map((item) => item.id);
      const { memes } = await send("GET", "/feed/memes?ids=" + ids.join(","));
      for (const id of ids) known.get(id).meme = memes.find((meme) => meme.id === id) ?? { id, gone: true };
      pending();
    } catch { setTimeout(request, 3000); } finally { recalling = false; }
    request();
  };
  let requested = false;
  const request = () => {
    if (requested) return;
    requested = true;
    requestAnimationFrame(() => { requested = false; settle(); });
  };

  // More memes, when ten are left.
  let loading = false;
  const more = async () => {
    if (loading) return;
    loading = true;
    let wait = 0;
    try {
      const seen = items.slice(-1000).map((item) => item.id.slice(0, 6)).join("");
      const page = await send("GET", `/feed/memes?template=${encodeURIComponent(feed.dataset.template)}&seen=${seen}`);
      const added = page.memes.filter((meme) => add(meme)).length;
      $("end").hidden = added > 0;
      if (added) say(`${added} more memes.`);
      else wait = 2000;
      pending();
    } catch (error) {
      wait = 1000 * (error.wait ?? 5);
      if (error instanceof Refused) complain(error);
    } finally {
      setTimeout(() => { loading = false; request(); }, wait);
    }
  };

  // Where the visitor is: reloading the page and going back come back to it.
  const PLACE = "memeloom.place:" + (feed.dataset.template ?? "");
  const save = () => {
    const skipped = Math.max(0, items.length - 1000), { index, offset } = place();
    stored(sessionStorage, PLACE, { items: items.slice(skipped).map(({ id, h }) => [id, Math.round(10 * h) / 10]), index: index - skipped, offset });
  };
  const restore = () => {
    const saved = stored(sessionStorage, PLACE);
    const shown = [...feed.querySelectorAll("article")].map(read);
    for (const [id, h] of saved.items ?? []) add({ id }, h);
    for (const meme of shown) {
      if (known.has(meme.id)) known.get(meme.id).meme = meme;
      else add(meme);
    }
    if (!saved.items?.length) return mount(0, items.length);
    feed.querySelectorAll("article").forEach((node) => node.remove());
    mount(Math.max(0, saved.index - 2), Math.min(items.length, saved.index + 6));
    scrollTo(0, scrollY + card(items[Math.max(0, saved.index)].id).getBoundingClientRect().top - saved.offset);
  };

  // Votes. They wait in the storage that all tabs share until the server has them, and are sent one after the other.
  const undoable = [];
  const apply = (id, value, sums) => {
    const meme = known.get(id)?.meme;
    if (!meme || meme.gone) return;
    if (sums) Object.assign(meme, sums);
    else {
      meme.likes += (value === 1) - (meme.mine === 1);
      meme.dislikes += (value === -1) - (meme.mine === -1);
    }
    meme.mine = value;
    if (card(id)) paint(card(id), meme);
  };
  const pending = () => { for (const [id, value] of Object.entries(stored(localStorage, VOTES))) apply(id, value); };
  const queue = (id, value) => {
    stored(localStorage, VOTES, { ...stored(localStorage, VOTES), [id]: value });
    apply(id, value);
    flush();
  };
  const vote = (id, value) => {
    const meme = known.get(id)?.meme;
    if (!meme || meme.gone) return;
    const now = meme.mine === value ? 0 : value;
    undoable.push([id, meme.mine]);
    queue(id, now);
    toast(now === 1 ? "You like it." : now === -1 ? "You do not like it." : "Your vote is taken back.", true);
  };
  const undo = () => {
    const before = undoable.pop();
    if (!before) return;
    queue(...before);
    toast("Undone.", undoable.length > 0);
  };
  let sending = false;
  const flush = async () => {
    if (sending) return;
    sending = true;
    let wait = 0;
    const all = async () => {
      for (let next; (next = Object.entries(stored(localStorage, VOTES))[0]);) {
        const [id, value] = next;
        let sums = null;
        try {
          sums = await send("PUT", `/feed/memes/${id}/reaction`, { value });
        } catch (error) {
          if (!(error instanceof Refused) || error.status === 429 || error.status >= 500) throw error;
          complain(error);
        }
        const left = stored(localStorage, VOTES);
        if (left[id] !== value) continue;
        delete left[id];
        stored(localStorage, VOTES, left);
        if (sums) apply(id, value, sums);
      }
    };
    try {
      // One tab sends at a time.
      await (navigator.locks ? navigator.locks.request(VOTES, all) : all());
    } catch (error) {
      wait = 1000 * (error.wait ?? 3);
    } finally {
      sending = false;
      if (wait) setTimeout(flush, wait);
    }
  };
  addEventListener("storage", ({ key, oldValue, newValue }) => {
    if (key === VOTES) {
      const old = JSON.parse(oldValue) ?? {};
      for (const [id, value] of Object.entries(JSON.parse(newValue) ?? {})) if (old[id] !== value) apply(id, value);
      flush(); // the other tab may be closed before it has sent them
    } else if (key === SETTINGS) {
      Object.assign(settings, JSON.parse(newValue));
      dress();
    }
  });
  addEventListener("online", () => { offline(false); flush(); if (endless) request(); });
  addEventListener("offline", () => offline(true));

  const copy = async (text, done) => {
    try {
      await navigator.clipboard.writeText(text);
      toast(done);
    } catch { prompt("Copy this:", text); }
  };
  const liked = (id) => {
    if (known.get(id)?.meme?.mine !== 1) vote(id, 1);
    card(id).classList.remove("liked");
    requestAnimationFrame(() => card(id)?.classList.add("liked"));
  };
  let tapped = null, tappedAt = 0;
  feed.addEventListener("pointerup", ({ target, timeStamp, button }) => {
    if (target.tagName !== "IMG" || button) return;
    const twice = tapped === target && timeStamp - tappedAt < 400;
    [tapped, tappedAt] = [twice ? null : target, timeStamp];
    if (twice) liked(target.closest("article").dataset.id);
  });
  feed.addEventListener("submit", (event) => {
    event.preventDefault();
    vote(event.target.closest("article").dataset.id, event.submitter.classList.contains("like") ? 1 : -1);
  });
  feed.addEventListener("click", (event) => {
    const node = event.target.closest("article"), item = event.target.closest(".more div > *");
    if (!node || !item) return;
    const { meme } = known.get(node.dataset.id), link = new URL(meme.page, location.href).href;
    if (item.matches(".share")) {
      if (navigator.share) navigator.share({ title: meme.name, text: meme.alt, url: link }).catch(() => {});
      else copy(link, "The link is copied.");
    } else if (item.matches(".copy")) copy(meme.alt, "The alt text is copied.");
    else if (item.matches(".report") && $("reporter")) {
      event.preventDefault();
      $("reporter").dataset.id = meme.id;
      $("reporting").reset();
      $("reporter").showModal();
    }
    item.closest("details").open = false;
  });
  const close = (except) => document.querySelectorAll(".more[open]").forEach((menu) => { if (menu !== except) menu.open = false; });
  addEventListener("click", ({ target }) => close(target.closest(".more")));
  $("undo").addEventListener("click", undo);
  $("forget").addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const { reactions } = await send("DELETE", "/feed/me");
      stored(localStorage, VOTES, {});
      undoable.length = 0;
      for (const { id, meme } of items) if (meme?.mine) apply(id, 0);
      toast(`You are forgotten. ${reactions} votes were deleted.`);
    } catch (error) { complain(error); }
  });

  addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    const typing = event.target.closest("input, select, textarea, dialog") || event.ctrlKey || event.metaKey || event.altKey;
    if (typing || !settings.keys) return;
    const { index, offset } = endless ? place() : { index: 0, offset: 0 };
    const focused = items.findIndex(({ id }) => card(id) && card(id) === event.target.closest("article"));
    const at = focused < 0 ? index : focused;
    const go = (to) => {
      const node = items[to] && card(items[to].id);
      if (!node) return;
      node.focus({ preventScroll: true, focusVisible: true });
      node.scrollIntoView({ block: "start" });
    };
    if (event.key === "j") go(focused < 0 && offset >= 60 ? index : at + 1);
    else if (event.key === "k") go(at - 1);
    else if (event.key === "l") vote(items[at].id, 1);
    else if (event.key === "d") vote(items[at].id, -1);
    else if (event.key === "u") undo();
    else return;
    event.preventDefault();
  });

  if (!endless) { // the page of one meme
    add(read(feed.querySelector("article")));
    last = 1;
    pending();
    flush();
    return;
  }
  // The foot of an endless page is never reached, and would move whenever memes are added above it.
  $("about").parentNode.className = "moved";
  $("chosen").append($("about"));
  history.scrollRestoration = "manual";
  restore();
  pending();
  flush();
  request();
  let saving;
  const later = () => { clearTimeout(saving); saving = setTimeout(save, 300); };
  addEventListener("scroll", () => { request(); later(); }, { passive: true });
  addEventListener("resize", request);
  addEventListener("pagehide", save);

  $("template").addEventListener("change", ({ target }) => {
    if (target.value !== "surprise") keep({ template: target.value });
    target.form.submit();
  });
  addEventListener("pageshow", () => { $("template").value = feed.dataset.template; });
  $("directions").hidden = !!settings.directed;
  $("directions").querySelector("button").addEventListener("click", () => {
    keep({ directed: true });
    $("directions").hidden = true;
  });
  $("settings").addEventListener("click", () => {
    $("chosen").querySelector(`[name=theme][value="${settings.theme}"]`).checked = true;
    $("keys").checked = settings.keys;
    $("chosen").showModal();
  });
  $("chosen").addEventListener("change", ({ target }) => {
    keep(target.name === "theme" ? { theme: target.value } : { keys: target.checked });
    dress();
  });
  $("reporting").addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await send("POST", `/feed/memes/${$("reporter").dataset.id}/report`, Object.fromEntries(new FormData(event.target)));
      toast("Thank you. Somebody will look at it.");
    } catch (error) { complain(error); }
    $("reporter").close();
  });

  // A meme of the visitor's own.
  const told = (text) => { $("maker-told").textContent = text; };
  $("create").addEventListener("click", () => {
    if (feed.dataset.template) $("maker-template").value = feed.dataset.template;
    $("maker").showModal();
  });
  const busy = async (button, text, work) => {
    button.disabled = true;
    told(text);
    try { told(await work()); } catch (error) { told(error instanceof Refused ? sentence(error.message) : "There is no connection."); }
    button.disabled = false;
  };
  const submit = $("start").querySelector("button");
  $("maker-picture").addEventListener("change", ({ target }) => busy(submit, "The picture is being read …", async () => {
    const form = new FormData();
    if (!target.files.length) return "";
    form.append("image", target.files[0]);
    const found = await send("POST", "/feed/picture", form);
    target.value = "";
    $("maker-start").value = found.text.slice(0, 200);
    if (!found.template) return found.text ? "This template is not known. Choose one for the text." : "Nothing is recognised in this picture.";
    const select = $("maker-template");
    if (![...select.options].some((option) => option.value === found.template)) select.add(new Option(found.name, found.template));
    select.value = found.template;
    return `This is ${found.name}.`;
  }));
  $("start").addEventListener("submit", (event) => {
    event.preventDefault();
    busy(submit, "The model is writing …", async () => {
      const made = await send("POST", "/feed/captions", { template: $("maker-template").value || null, start: $("maker-start").value });
      const img = $("made").querySelector("img");
      Object.assign(img, { alt: made.alt, width: made.width, height: made.height, src: made.picture });
      Object.assign($("made").querySelector("a"), { href: made.picture, download: made.template + ".jpg" });
      $("made").hidden = false;
      return made.alt;
    });
  });
  $("made").querySelector("button").addEventListener("click", () => copy($("made").querySelector("img").alt, "The alt text is copied."));
});
