# SPDX-License-Identifier: Apache-2.0
"""Questions to a page about its looks, for Browser.ask. Invariant: asking changes nothing on the page."""

# The least contrast of any text on the page with what it stands on (WCAG's formula), and that text.
CONTRAST = """(() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = colour => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
                           return canvas.getImageData(0, 0, 1, 1).data; };
  const light = c => [0, 1, 2].map(i => c[i] / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const under = e => {
    for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] > 250) return c; }
    return [255, 255, 255];
  };
  let least = [99, ""];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement, text = walk.currentNode.textContent.trim();
    if (!text || !e.checkVisibility({visibilityProperty: true}) || e.closest(".hidden, .skip, script, noscript")) continue;
    if (getComputedStyle(e).fontSize === "0px") continue;
    const [a, b] = [light(rgba(getComputedStyle(e).color)), light(under(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < least[0]) least = [ratio, text];
  }
  return least;
})()"""
# Elements that stick out of the page to the right and are in no frame that scrolls.
OUTSIDE = """[...document.body.querySelectorAll("*")].filter(e => e.getBoundingClientRect().right > innerWidth + 1 &&
  !e.closest(".frame, pre, .hidden")).map(e => e.tagName + "." + e.className + ": " + e.textContent.slice(0, 40))"""
# Texts that leave their table's cell, or the page, whatever their element says.
SPILLED = """(() => {
  const out = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement, range = document.createRange();
    if (!walk.currentNode.textContent.trim() || !e.checkVisibility() || e.closest(".hidden, .skip, .frame, pre")) continue;
    range.selectNodeContents(walk.currentNode);
    const cell = e.closest("td, th, dd, dt");
    const limit = cell ? cell.getBoundingClientRect().right : innerWidth;
    if (range.getBoundingClientRect().right > limit + 1) out.push(walk.currentNode.textContent.slice(0, 40));
  }
  return out;
})()"""
