// Keeps a page up to date and its times in the viewer's zone. Everything works without it, but stands still.
"use strict";

const body = document.body;
const base = body.dataset.base;
// How far the server's clock is ahead of this one, in milliseconds.
const ahead = Date.parse(body.dataset.now) - Date.now();
const now = () => Date.now() + ahead;

const sameDay = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const sameYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const otherYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" });

function about(milliseconds) {
  const s = Math.round(milliseconds / 1000);
  if (s < 1) return "a moment";
  if (s < 90) return `about ${s} s`;
  if (s < 90 * 60) return `about ${Math.round(s / 60)} min`;
  if (s < 36 * 3600) return `about ${Math.round(s / 3600)} h`;
  return `about ${Math.round(s / 86400)} days`;
}

function relative(at) {
  const d = at - now();
  if (d > 0) return `in ${about(d).replace("about ", "")}`;
  if (d > -1500) return "just now";
  return `${about(-d).replace("about ", "")} ago`;
}

function absolute(at) {
  const t = new Date(at), today = new Date(now());
  if (t.toDateString() === today.toDateString()) return sameDay.format(t);
  return (t.getFullYear() === today.getFullYear() ? sameYear : otherYear).format(t);
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Returns whether a wait that the page speaks of is over. A soft one is only a guess, which is no news when it is over.
function tick() {
  let over = false;
  for (const time of document.querySelectorAll("time[data-time], time[data-until]")) {
    const at = Date.parse(time.dateTime);
    if ("until" in time.dataset) {
      write(time, about(at - now()));
      over ||= !("soft" in time.dataset) && at - now() < -500;
    } else {
      write(time, "relative" in time.dataset ? relative(at) : absolute(at));
    }
  }
  return over;
}

const zone = document.getElementById("zone");
if (zone) zone.textContent = `in your zone, ${Intl.DateTimeFormat().resolvedOptions().timeZone}`;

// What the server sent last for each live part, so that only parts that differ are replaced.
const known = new Map();
for (const part of document.querySelectorAll("[data-live]")) known.set(part.id, part.outerHTML);
tick();

// A button that is replaced between the press and the release is never clicked.
let pressed = null, missed = false;
addEventListener("pointerdown", (event) => { pressed = event.target; }, true);
for (const end of ["pointerup", "pointercancel"]) {
  addEventListener(end, () => setTimeout(() => { // the click comes after the release
    pressed = null;
    if (missed) refresh();
    missed = false;
  }), true);
}

function busy(part) {
  if (pressed && part.contains(pressed)) {
    missed = true;
    return true;
  }
  if (part.querySelector("details[open]")) return true;
  const focused = document.activeElement;
  if (part.contains(focused) && focused.matches("input, select, textarea")) return true;
  return [...part.querySelectorAll("input[type=checkbox]")].some((box) => box.checked !== box.defaultChecked);
}

function replace(page) {
  for (const fresh of page.querySelectorAll("[data-live]")) {
    const part = document.getElementById(fresh.id);
    if (!part || known.get(fresh.id) === fresh.outerHTML || busy(part)) continue;
    const focus = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    known.set(fresh.id, fresh.outerHTML);
    // What a script has drawn is not thrown away with the text around it.
    const kept = [...part.querySelectorAll("[data-keep]")];
    part.replaceWith(document.adoptNode(fresh));
    for (const element of kept) document.getElementById(element.id)?.replaceWith(element);
    if (focus) fresh.querySelector(`a[href="${CSS.escape(focus)}"]`)?.focus();
  }
  tick();
  document.dispatchEvent(new Event("calferry:shown"));
}

const live = document.getElementById("live");
function tell(on) {
  if (!live) return;
  live.hidden = false;
  live.className = on ? "live on" : "live";
  write(live, on ? "Live" : "Not live; connecting");
}

// Asks for the page again, or for the part of it that moves while a sync goes on.
let asking = false, again = "";
async function refresh(part = "all") {
  if (asking) {
    again = again === "all" ? again : part;
    return;
  }
  asking = true;
  try {
    const address = new URL(location.href);
    if (part === "now") address.searchParams.set("part", "now");
    const answer = await fetch(address, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(30_000) });
    if (answer.redirected && new URL(answer.url).pathname === `${base}/login`) {
      location.reload();
    } else if (answer.status === 404) {
      location.assign(`${base}/`);
    } else if (answer.ok) {
      replace(new DOMParser().parseFromString(await answer.text(), "text/html"));
    }
  } catch {
    tell(false); // the stream connects again by itself, and then asks
  } finally {
    asking = false;
    if (again) {
      const next = again;
      again = "";
      setTimeout(() => refresh(next), 1000);
    }
  }
}

let asked = 0;
setInterval(() => {
  if (document.hidden) return;
  // A wait that is over changes what there is to say; without news, asking again every few seconds is enough.
  if (tick() && body.dataset.follow && Date.now() - asked > 3000) {
    asked = Date.now();
    refresh();
  }
}, 1000);

if (body.dataset.follow) {
  const stream = new EventSource(`${base}/events?follow=${encodeURIComponent(body.dataset.follow)}`);
  stream.addEventListener("hello", () => {
    tell(true);
    refresh(); // what changed since the page was made, before the stream began
  });
  stream.addEventListener("changed", () => refresh());
  stream.addEventListener("progress", () => refresh("now"));
  stream.addEventListener("error", () => tell(false));
}
