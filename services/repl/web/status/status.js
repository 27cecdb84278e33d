"use strict";
// The list of connected pages, updated over a WebSocket.
const list = document.getElementById("pages"), summary = document.getElementById("summary");
let token = document.body.dataset.token, wait = 250;

// put changes a text only if it differs, to keep the user's selection.
const put = (item, name, text) => {
  const part = item.querySelector("." + name);
  if (part.textContent !== text) part.textContent = text;
};

const clock = time => new Date(time).toTimeString().slice(0, 8);

const makeItem = id => {
  const item = document.createElement("li");
  item.dataset.id = id;
  const name = document.createElement("div");
  for (const [tag, part] of [["strong", "name"], ["span", "kind"]]) {
    const e = document.createElement(tag);
    e.className = part;
    name.append(e, " ");
  }
  item.append(name);
  for (const [tag, part] of [["div", "state"], ["div", "title"], ["code", "file"], ["a", "url"], ["div", "seen"]]) {
    const e = document.createElement(tag);
    e.className = part;
    item.append(e);
  }
  return item;
};

const show = pages => {
  const old = new Map([...list.children].map(item => [item.dataset.id, item]));
  let before = list.firstChild;
  for (const page of pages) {
    const item = old.get(page.id) ?? makeItem(page.id);
    old.delete(page.id);
    put(item, "name", page.name + "-" + page.id);
    put(item, "kind", page.kind === "page" ? "" : page.kind);
    put(item, "title", page.title ?? "");
    put(item, "state", page.state + (page.busy_since ? ", busy or frozen since " + clock(page.busy_since) : ""));
    put(item, "file", page.file);
    put(item, "url", page.url ?? "");
    const link = item.querySelector(".url"); // an address chosen by the page
    if (/^https?:/.test(page.url)) link.href = page.url; else link.removeAttribute("href");
    put(item, "seen", "last heard of at " + clock(page.last_seen));
    if (item === before) before = before.nextSibling; else list.insertBefore(item, before);
  }
  for (const item of old.values()) item.remove();
  summarize(pages.length === 0 ? "No page is connected." : pages.length === 1 ? "One page is connected." : pages.length + " pages are connected.");
};

const summarize = text => { if (summary.textContent !== text) summary.textContent = text; };

const open = () => {
  const socket = new WebSocket("ws://" + location.host + "/zino/live", ["zino", token]);
  socket.onmessage = e => { wait = 250; show(JSON.parse(e.data).pages); };
  socket.onclose = () => { summarize("The service does not answer. Trying again…"); setTimeout(again, wait); };
};

// again reconnects with a new token, because a restart of the service changes it.
const again = async () => {
  wait = Math.min(wait * 2, 5000);
  try {
    const page = await (await fetch(location.pathname, { cache: "no-store" })).text();
    token = new DOMParser().parseFromString(page, "text/html").body.dataset.token;
    open();
  } catch {
    setTimeout(again, wait);
  }
};

for (const button of document.querySelectorAll("[data-copy]")) {
  button.onclick = async () => {
    const field = document.getElementById(button.dataset.copy);
    field.select();
    await navigator.clipboard?.writeText(field.value);
    button.textContent = "Copied";
  };
}
open();
