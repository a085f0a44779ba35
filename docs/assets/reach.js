/* What the theme makes in the browser, for people who do not see it or have no mouse. */
const reachable = () => {
  /* A table that is wider than the page scrolls; with this, by keys too. */
  for (const wrap of document.querySelectorAll(".md-typeset__scrollwrap, .output-table")) {
    const scrolls = wrap.scrollWidth > wrap.clientWidth;
    if (scrolls) wrap.setAttribute("tabindex", "0");
    else wrap.removeAttribute("tabindex");
  }
};
const quiet = () => {
  /* The buttons of a block of code are no place of the page to go to. */
  for (const nav of document.querySelectorAll(".md-code__nav:not([role])")) nav.setAttribute("role", "none");
};
document$.subscribe(() => requestAnimationFrame(() => setTimeout(reachable)));
addEventListener("resize", reachable);
new MutationObserver(quiet).observe(document.body, { childList: true, subtree: true });
quiet();
