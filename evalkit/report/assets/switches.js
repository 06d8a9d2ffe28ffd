"use strict";
// What every page has: the switches of language and shade. Others hear of a new language by the event "speak".
(() => {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
  const language = document.getElementById("language"), theme = document.getElementById("theme");
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : dark.matches;
  const mark = () => root.classList.toggle("is-dark", isDark());
  const speak = (next) => {
    root.lang = root.dataset.lang = next;
    document.dispatchEvent(new Event("speak"));
  };
  language.addEventListener("click", () => speak(root.dataset.lang === "en" ? "zh" : "en"));
  theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; mark(); });
  dark.addEventListener("change", mark);
  language.hidden = theme.hidden = false;
  mark();
  const asked = location.hash.slice(1);
  if (asked === "en" || asked === "zh") speak(asked);
})();
