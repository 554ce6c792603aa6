"use strict";
// Shows one stage at a time, and marks what comes from the same lines of Python. Without it, the page shows everything.
document.documentElement.classList.add("js");

// What stays below the bars of stages, which take two lines where their numbers are large.
const bars = [...document.querySelectorAll(".flow")];
const makeRoom = () =>
  document.documentElement.style.setProperty("--bar-height", `${Math.max(0, ...bars.map((e) => e.offsetHeight))}px`);
addEventListener("resize", makeRoom);
makeRoom();

for (const graph of document.querySelectorAll(".graph")) {
  const stages = [...graph.querySelectorAll(".stage")];
  const links = [...graph.querySelectorAll(".flow a")];
  const origins = (e) => (e.dataset.o || "").split(" ").filter(Boolean);
  const sections = links.map((a) => document.getElementById(a.hash.slice(1)));
  const from = new Map(); // by line of Python: what came from it
  const section = new Map(); // the number of the stage that an element counts for
  for (const e of graph.querySelectorAll("[data-o]")) {
    for (const o of origins(e)) from.set(o, [...(from.get(o) || []), e]);
    if (e.id) section.set(e, sections.findIndex((s) => s.contains(e)));
  }
  const marked = { hover: new Set(), pin: new Set() };
  let pinned = [];

  const show = (stage) => {
    for (const s of stages) s.classList.toggle("shown", s === stage);
    for (const a of links) {
      if (a.hash === "#" + stage.id) a.setAttribute("aria-current", "true");
      else a.removeAttribute("aria-current");
    }
  };

  const mark = (wanted, name) => {
    const now = new Set(wanted.flatMap((o) => from.get(o) || []));
    for (const e of marked[name]) if (!now.has(e)) e.classList.remove(name);
    for (const e of now) e.classList.add(name);
    marked[name] = now;
    const hits = links.map(() => 0);
    for (const e of pinned.length ? marked.pin : now) if (section.get(e) >= 0) hits[section.get(e)] += 1;
    links.forEach((a, k) => {
      if (hits[k]) a.dataset.hits = hits[k];
      else delete a.dataset.hits;
    });
  };

  const reveal = (e, box) => {
    const at = e.getBoundingClientRect();
    const low = box ? box.getBoundingClientRect().bottom : innerHeight;
    if (at.top < 70 || at.bottom > Math.min(low, innerHeight)) e.scrollIntoView({ block: "center" });
  };

  const pin = (picked) => {
    const wanted = origins(picked);
    pinned = wanted.join() === pinned.join() ? [] : wanted;
    mark(pinned, "pin");
    if (!pinned.length) return;
    const python = graph.querySelector(".python");
    const line = graph.querySelector(".source .pin");
    if (line && !python.contains(picked)) python.scrollTop += line.offsetTop - python.offsetTop - python.clientHeight / 3;
    const node = graph.querySelector(".stage.shown .pin");
    if (node && python.contains(picked) && matchMedia("(min-width: 60.01rem)").matches) reveal(node);
  };

  const follow = (hash) => {
    const goal = hash.length > 1 && document.getElementById(hash.slice(1));
    if (!goal || !graph.contains(goal)) return false;
    const stage = goal.closest(".stage");
    if (stage) show(stage);
    const folded = goal.closest("details");
    if (folded) folded.open = true;
    if (goal.dataset.o !== undefined && origins(goal).join() !== pinned.join()) pin(goal);
    if (goal === stage) {
      const top = graph.querySelector(".stages").getBoundingClientRect().top;
      if (top < 0 || top > innerHeight * 0.6) graph.querySelector(".bench").scrollIntoView();
    } else goal.scrollIntoView({ block: stage ? "center" : "start" });
    return true;
  };

  graph.addEventListener("mouseover", (event) => {
    const e = event.target.closest("[data-o]");
    mark(e ? origins(e) : [], "hover");
  });
  graph.addEventListener("mouseleave", () => mark([], "hover"));
  graph.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (link) {
      if (link.hash && follow(link.hash)) {
        event.preventDefault();
        history.replaceState(null, "", link.hash);
      }
      return;
    }
    const e = event.target.closest("[data-o]");
    if (e && !event.target.closest("summary") && !String(getSelection())) pin(e);
  });
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && pinned.length) {
      pinned = [];
      mark([], "pin");
    }
  });
  addEventListener("hashchange", () => follow(location.hash));
  if (stages.length) show(stages[0]);
  follow(location.hash);
}
