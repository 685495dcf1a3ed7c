// Puts the new page in the place of the old one when the server says that something came, and answers a few
// keys. Everything works without it.
(() => {
  "use strict";
  const root = new URL("../", document.currentScript.src); // a proxy may show the page under a path
  const LEAST_MS = 2000;
  let busy = false;
  let held = false;
  let wanted = false;
  let announced = 0; // the store's revision, until it was fetched
  const main = () => document.getElementById("main");
  const live = () => main().dataset.live === "yes";

  const refresh = () => {
    wanted = true;
    if (busy || held || document.hidden || !live() || inUse()) return;
    fetched();
  };

  // What somebody has begun to say or to read is not taken out of his hands.
  const inUse = () => main().querySelector("form :focus, details[open]") || [...main().querySelectorAll("form :is(input, textarea, option)")].some(changed);
  const changed = (one) => (one.tagName === "OPTION" ? one.selected !== one.defaultSelected : one.checked !== one.defaultChecked || one.value !== one.defaultValue);

  const fetched = () => {
    busy = true;
    wanted = false;
    const request = new XMLHttpRequest();
    request.open("GET", location.href);
    request.responseType = "document"; // parsed, never run
    request.onload = () => {
      const fresh = request.response && request.response.getElementById("main");
      if (fresh && inUse()) wanted = true;
      else if (fresh) {
        replace(fresh, request.response);
        if (Number(fresh.dataset.revision) < announced) wanted = true; // a view of two seconds ago
        announced = 0;
      }
    };
    request.onloadend = () => setTimeout(() => { busy = false; if (wanted) refresh(); }, LEAST_MS);
    request.send();
  };

  const replace = (fresh, page) => {
    const top = scrollY;
    const focused = main().contains(document.activeElement) && document.activeElement.getAttribute("href");
    main().replaceChildren(...[...fresh.childNodes].map((node) => document.importNode(node, true)));
    main().dataset.live = fresh.dataset.live;
    main().dataset.revision = fresh.dataset.revision;
    document.title = page.title;
    document.querySelector("footer")?.replaceChildren(...[...(page.querySelector("footer")?.childNodes ?? [])].map((node) => document.importNode(node, true)));
    const [old, now] = [document.querySelector(".live"), page.querySelector(".live")];
    if (old && now && old.textContent !== now.textContent) { old.className = now.className; old.textContent = now.textContent; }
    if (focused) [...main().querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus({ preventScroll: true });
    scrollTo(0, top);
  };

  const go = (selector) => { const link = document.querySelector(selector); if (link) location = link.href; };
  const move = (step) => {
    const links = [...document.querySelectorAll("a.open")];
    if (!links.length) return go(step > 0 ? "a[rel=next]" : "a[rel=prev]");
    const at = links.indexOf(document.activeElement) + step;
    links[Math.max(0, Math.min(at, links.length - 1))].focus();
  };
  const pause = () => {
    held = !held;
    const sign = document.querySelector(".live");
    sign.classList.toggle("held", held);
    if (held) { sign.dataset.was = sign.textContent; sign.textContent = sign.dataset.paused; }
    else { sign.textContent = sign.dataset.was; if (wanted) refresh(); }
  };
  const search = (event) => { event.preventDefault(); document.querySelector("[type=search]:enabled")?.focus(); };
  const keys = { j: () => move(1), k: () => move(-1), p: pause, "/": search };
  for (const number of [1, 2, 3, 4]) keys[number] = () => go(`header nav a:nth-child(${number})`);

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.documentElement.dataset.keys === "off") return;
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    keys[event.key]?.(event);
  });

  // Times are written by the server, in the zone that this cookie names: the same on the page, in drawings, in files.
  const zone = `zone=${Intl.DateTimeFormat().resolvedOptions().timeZone}`;
  const told = () => document.cookie.split("; ").includes(zone);
  if (!told()) {
    document.cookie = `${zone}; path=${root.pathname}; max-age=31536000; samesite=strict`;
    const shown = Number(document.documentElement.dataset.zoneOffset);
    if (told() && shown !== new Date().getTimezoneOffset()) fetched();
  }

  // A browser keeps six connections to a server, for all its tabs: only those that are seen hold one.
  let stream = null;
  const listen = () => {
    stream?.close();
    stream = document.hidden ? null : new EventSource(new URL(`live?since=${main().dataset.revision ?? ""}`, root));
    stream?.addEventListener("changed", (event) => { announced = Number(event.data); refresh(); });
  };
  document.addEventListener("visibilitychange", () => { listen(); if (!document.hidden) refresh(); });
  listen();
})();
