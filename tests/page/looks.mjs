// What can be measured of a page's looks. These run inside the page.

// Texts whose contrast to what is behind them is below `least`, as "ratio text".
export function faint_texts(least) {
  const pen = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (css) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = css;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], [r2, g2, b2]) =>
    [r * a + r2 * (1 - a), g * a + g2 * (1 - a), b * a + b2 * (1 - a)];
  const behind = (node) => {
    const layers = [];
    for (let at = node; at !== null; at = at.parentElement) {
      const layer = rgba(getComputedStyle(at).backgroundColor);
      layers.push(layer);
      if (layer[3] === 1) break;
    }
    return layers.reverse().reduce((under, layer) => over(layer, under), rgba('Canvas'));
  };
  const opacity = (node) => {
    let product = 1;
    for (let at = node; at !== null; at = at.parentElement) {
      product *= Number(getComputedStyle(at).opacity);
    }
    return product;
  };
  const luminance = (colour) => {
    const [r, g, b] = colour.map((channel) => {
      const part = channel / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const faint = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    if (text === '' || node.matches(':disabled, noscript, style')) continue;
    const { width, height } = node.getBoundingClientRect();
    if (width <= 1 || height <= 1 || !node.checkVisibility({ visibilityProperty: true })) continue;
    const ground = behind(node);
    const [r, g, b, a] = rgba(getComputedStyle(node).color);
    const ink = over([r, g, b, a * opacity(node)], ground);
    const [high, low] = [luminance(ink), luminance(ground)].sort((x, y) => y - x);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < least) faint.add(`${ratio.toFixed(2)} ${text.slice(0, 40)}`);
  }
  return [...faint];
}

// What does not fit: the page itself, texts outside of it, and texts that are cut off without an
// ellipsis.
export function cut_off() {
  const found = new Set();
  const { scrollWidth } = document.scrollingElement;
  if (scrollWidth > innerWidth) found.add(`the page is ${scrollWidth} wide`);
  const scrolls = (node) => {
    for (let at = node; at !== null && at !== document.documentElement; at = at.parentElement) {
      if (['auto', 'scroll'].includes(getComputedStyle(at).overflowX)) return true;
    }
    return false;
  };
  const unseen = (node) => node.closest('.unseen, .skip, noscript') !== null;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim().slice(0, 40);
    if (text === '' || unseen(node)) continue;
    if (!node.checkVisibility({ visibilityProperty: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(walker.currentNode);
    const { left, right, width } = range.getBoundingClientRect();
    if (width === 0 || scrolls(node)) continue;
    let ellipsis = false;
    for (let at = node; at !== document.body; at = at.parentElement) {
      const { overflowX, overflowY, textOverflow, display } = getComputedStyle(at);
      ellipsis ||= textOverflow === 'ellipsis' && overflowX !== 'visible';
      if (display === 'inline') continue;
      const box = at.getBoundingClientRect();
      if (overflowX !== 'visible' && !ellipsis && (right > box.right + 1 || left < box.left - 1)) {
        found.add(`cut: ${text}`);
      }
      if (overflowY === 'hidden' && at.scrollHeight > at.clientHeight + 2) {
        found.add(`cut below: ${text}`);
      }
    }
    if (!ellipsis && (right > innerWidth + 1 || left < -1)) found.add(`outside: ${text}`);
  }
  return [...found];
}

// Texts that lie upon each other, as "text / text".
export function overlaps() {
  const boxes = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { currentNode } = walker;
    const node = currentNode.parentElement;
    const text = currentNode.textContent.trim().slice(0, 30);
    if (text === '' || node.closest('.unseen, .skip, noscript')) continue;
    if (!node.checkVisibility({ visibilityProperty: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(currentNode);
    for (const { left, top, right, bottom } of range.getClientRects()) {
      const box = { currentNode, text, left, top, right, bottom };
      for (let at = node; at !== document.body; at = at.parentElement) {
        if (getComputedStyle(at).overflowX === 'visible') continue;
        const frame = at.getBoundingClientRect();
        box.left = Math.max(box.left, frame.left);
        box.right = Math.min(box.right, frame.right);
        box.top = Math.max(box.top, frame.top);
        box.bottom = Math.min(box.bottom, frame.bottom);
      }
      boxes.push(box);
    }
  }
  const found = new Set();
  boxes.forEach((a, i) => {
    for (const b of boxes.slice(i + 1)) {
      if (a.currentNode === b.currentNode) continue;
      const width = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const height = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (width > 2 && height > 5) found.add(`${a.text} / ${b.text}`);
    }
  });
  return [...found];
}
