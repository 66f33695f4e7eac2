r"""What a person decides on the page becomes commands to copy: a small script, and the controls that it reads.

The page changes nothing itself. Whatever is typed, or stands in an id, is quoted for a POSIX shell; characters that
a terminal would obey rather than show are written as escapes (``$'\u001b'``, as bash, zsh and ksh read them).
"""

from collections.abc import Collection, Mapping
from html import escape

SCRIPT = r"""
(() => {
  "use strict";
  const obeyed = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
  const code = (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0");
  const quote = (text) => {
    if (/^[\w@%+=:,.\/-]+$/.test(text)) return text;
    if (text.search(obeyed) < 0) return "'" + text.replaceAll("'", "'\\''") + "'";
    return "$'" + text.replace(/[\\']/g, "\\$&").replaceAll("!", code("!")).replace(obeyed, code) + "'";
  };
  const command = (verb, ...words) =>
    ["memeloom templates", verb, ...(words.some((word) => word.startsWith("-")) ? ["--"] : []), ...words.map(quote)]
      .join(" ");
  const cards = [...document.querySelectorAll("article[data-id]")];
  const board = document.getElementById("decisions");
  const count = board.querySelector("h2"), list = board.querySelector("pre"), copy = board.querySelector("button");
  const typed = (card, name) => card.querySelector("[name=" + name + "]")?.value.trim();
  const decision = (card) => {
    const id = card.dataset.id, into = typed(card, "merge"), name = typed(card, "name");
    if (card.querySelector("[name=reject]:checked")) return command("reject", id);
    const kept = card.querySelector("[name=keep]:checked") && card.querySelector("legend bdi").textContent;
    if (kept) return command("name", id, kept);
    if (into && into !== id) return command("merge", id, into);
    return name ? command("name", id, name) : "";
  };
  const collect = () => {
    const made = cards.map((card) => {
      const line = decision(card);
      card.classList.toggle("decided", line !== "");
      return line;
    }).filter((line) => line);
    list.textContent = made.join("\n");
    count.textContent = made.length === 1 ? "1 decision" : made.length + " decisions";
    copy.textContent = "Copy";
    board.hidden = !made.length;
  };
  for (const card of cards) {
    const controls = card.querySelector("fieldset");
    controls.hidden = controls.disabled = false;
    controls.addEventListener("input", ({ target }) => {
      for (const other of controls.querySelectorAll("input")) {
        if (other !== target) { other.value = other.type === "text" ? "" : other.value; other.checked = false; }
      }
      collect();
    });
  }
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(list.textContent + "\n");
    } catch {
      getSelection().selectAllChildren(list);
      if (!document.execCommand("copy")) return;
    }
    copy.textContent = "Copied";
  });
  addEventListener("pageshow", collect);
})();
"""


_TYPED = {
    "name": '<label>Name <input type="text" name="name" autocomplete="off" maxlength="200"></label>',
    "merge": '<label>Merge into <input type="text" name="merge" list="templates" autocomplete="off" '
    'placeholder="id of a template"></label>',
}
_TICKED = {
    "keep": '<label><input type="checkbox" name="keep"> The name is right</label>',
    "reject": '<label><input type="checkbox" name="reject"> Reject</label>',
}


def controls(name: str, verbs: Collection[str]) -> str:
    """Where a person decides about the template called `name`; hidden until the script runs.

    verbs: those of the commands, and ``keep`` for a name that may be right as it is.
    """
    typed = "".join(html for verb, html in _TYPED.items() if verb in verbs)
    ticked = "".join(html for verb, html in _TICKED.items() if verb in verbs)
    legend = f"<legend>Decide about <bdi>{escape(name)}</bdi></legend>"
    return f'<fieldset hidden disabled>{legend}{typed}<div class="ticks">{ticked}</div></fieldset>'


def board(names: Mapping[str, str]) -> str:
    """Where the commands gather. names: of templates that others may be merged into, by id."""
    options = "".join(f'<option value="{escape(key)}">{escape(name)}</option>' for key, name in names.items())
    return (
        f'<datalist id="templates">{options}</datalist><section id="decisions" hidden>'
        '<div><h2 role="status"></h2><p class="soft">Run them with the settings of this run.</p>'
        '<button type="button">Copy</button></div><pre tabindex="0" aria-label="commands"></pre></section>'
    )
