/* A table that is wider than the page scrolls; with this, by keys too. */
const reachable = () => {
  for (const wrap of document.querySelectorAll(".md-typeset__scrollwrap, .output-table")) {
    const scrolls = wrap.scrollWidth > wrap.clientWidth;
    if (scrolls) wrap.setAttribute("tabindex", "0");
    else wrap.removeAttribute("tabindex");
  }
};
document$.subscribe(() => requestAnimationFrame(() => setTimeout(reachable)));
addEventListener("resize", reachable);
