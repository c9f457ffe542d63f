// SPDX-License-Identifier: Apache-2.0
// The lanes: a canvas with a row for each stream, over the span of time that is shown.
// Invariant: a frame draws no more bars than a lane has columns of pixels, however many events there are.
"use strict";
const trace = JSON.parse(document.getElementById("trace").textContent);
const KINDS = ["kernel", "copy", "collective", "wait", "host"];
const FIELDS = 7;  // of an event: begin, length, kind, name, bytes, bucket, predicted; times in ns since the trace began
const AXIS = 26, RANK = 24, LANE = 26, BAR = 20;

const $ = id => document.getElementById(id);
const canvas = $("lanes"), brush = canvas.getContext("2d", {alpha: false});
const whole = {from: 0, to: Math.max(1, ...trace.lanes.map(lane => lane.end))};
const view = {...whole};  // what is shown
const rows = [];          // of the picture: {y, lane}, {y, run, rank}, or {y, run} where there are several
const several = trace.runs.length > 1;
let size = {width: 0, height: 0, label: 0}, colours = {}, chosen = null, laneChosen = 0, asked = false;

for (const lane of trace.lanes) {
  lane.events = Float64Array.from(lane.events);
  lane.count = lane.events.length / FIELDS;
}
let height = AXIS;
trace.lanes.forEach((lane, i) => {
  const before = i === 0 ? {} : trace.lanes[i - 1];
  if (several && before.run !== lane.run) {
    rows.push({y: height, run: lane.run});
    height += RANK;
  }
  if (before.run !== lane.run || before.rank !== lane.rank) {
    rows.push({y: height, run: lane.run, rank: lane.rank});
    height += RANK;
  }
  rows.push({y: height, lane});
  height += LANE;
});

function time(ns) {
  const [size, unit] = ns < 1e3 ? [1, "ns"] : ns < 1e6 ? [1e3, "µs"] : ns < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  const value = ns / size;
  return `${unit === "ns" ? Math.round(value) : value.toFixed(value < 10 ? 2 : 1)} ${unit}`;
}

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; count >= 1024 && unit + 1 < units.length; ++unit) count /= 1024;
  return `${unit === 0 ? count : count.toFixed(1)} ${units[unit]}`;
}

function event(lane, i) {
  const [begin, length, kind, name, size, bucket, predicted] = lane.events.slice(i * FIELDS, (i + 1) * FIELDS);
  return {lane, i, begin, length, kind: KINDS[kind], name: trace.names[name], bytes: size, bucket, predicted};
}

// Everything there is to say about an event, a line each.
function words(e) {
  return [several ? trace.runs[e.lane.run].name : "", `${e.kind} ${e.name}`, `rank ${e.lane.rank}, ${e.lane.stream}`, `from ${time(e.begin)}, ${time(e.length)} long`,
          e.bytes ? bytes(e.bytes) : "", e.bucket >= 0 ? `bucket ${e.bucket}` : "",
          e.predicted > 0 ? `predicted ${time(e.predicted)}: took ${Math.round(100 * e.length / e.predicted)} % of it` : ""]
    .filter(line => line);
}

const scale = () => (size.width - size.label) / (view.to - view.from);
const x = ns => size.label + (ns - view.from) * scale();
const when = px => view.from + (px - size.label) / scale();

// The first event of a lane that may end after `ns`.
function firstAfter(lane, ns) {
  let low = 0, high = lane.count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lane.events[middle * FIELDS] < ns - lane.longest) low = middle + 1;
    else high = middle;
  }
  return low;
}

function bar(kind, from, to, y) {
  brush.fillStyle = colours[KINDS[kind]];
  if (kind === 3) brush.fillRect(from, y + LANE / 2 - 2, to - from, 4);
  else brush.fillRect(from, y + (LANE - BAR) / 2, to - from, BAR);
}

// Events narrower than a column of pixels or two: a column has the colour of the kind that fills most of it, and neighbours
// of one colour are one bar.
const narrow = {
  share: new Float64Array(KINDS.length), column: -1, kind: -1, from: 0, to: 0,
  add(kind, from, length, y) {
    const column = Math.floor(from);
    if (column !== this.column) this.closeColumn(y);
    this.column = column;
    this.share[kind] += length + 1e-9;  // one of no length is there, too
  },
  closeColumn(y) {
    if (this.column < 0) return;
    let kind = 0;
    for (let i = 1; i < this.share.length; ++i) if (this.share[i] > this.share[kind]) kind = i;
    this.share.fill(0);
    if (kind !== this.kind || this.column !== this.to) {
      this.drawRun(y);
      this.kind = kind;
      this.from = this.column;
    }
    this.to = this.column + 1;
    this.column = -1;
  },
  drawRun(y) {
    if (this.kind >= 0) bar(this.kind, this.from, this.to, y);
    this.kind = -1;
  },
  flush(y) {
    this.closeColumn(y);
    this.drawRun(y);
  },
};

function label(text, from, to, y) {
  if (to - from < 30) return;
  brush.save();
  brush.beginPath();
  brush.rect(from + 3, y, to - from - 6, LANE);
  brush.clip();
  brush.fillStyle = colours.ink;
  brush.fillText(text, from + 5, y + LANE / 2 + 4);
  brush.restore();
}

function drawLane(lane, y) {
  brush.fillStyle = colours.row;
  brush.fillRect(size.label, y + (LANE - BAR) / 2, size.width - size.label, BAR);
  const e = lane.events, wide = scale(), left = size.label - view.from * wide;
  for (let i = firstAfter(lane, view.from) * FIELDS; i < e.length && e[i] < view.to; i += FIELDS) {
    const from = Math.max(left + e[i] * wide, size.label), kind = e[i + 2];
    const to = Math.min(left + (e[i] + e[i + 1]) * wide, size.width);
    if (to < size.label) continue;
    if (to - from < 2) {
      narrow.add(kind, from, to - from, y);
      continue;
    }
    narrow.flush(y);
    bar(kind, from, to - (to - from > 4 ? 1 : 0), y);  // a gap, so that neighbours are two
    if (kind !== 3) label(e[i + 5] >= 0 ? `${e[i + 5]}: ${trace.names[e[i + 3]]}` : trace.names[e[i + 3]], from, to, y);
  }
  narrow.flush(y);
}

// Over a rank: when its communication was exposed. Pieces that meet in a column of pixels are one bar.
function drawExposed(pieces, y) {
  brush.fillStyle = colours.exposed;
  const wide = scale(), left = size.label - view.from * wide;
  let from = 0, to = -1;
  const flush = () => { if (to > from) brush.fillRect(from, y + RANK - 8, to - from, 5); };
  for (let i = 0; i < pieces.length && pieces[i] <= view.to; i += 2) {
    if (pieces[i + 1] < view.from) continue;
    const begin = Math.max(Math.floor(left + pieces[i] * wide), size.label);
    if (begin > to) {
      flush();
      from = begin;
    }
    to = Math.max(to, begin + 1, Math.ceil(left + pieces[i + 1] * wide));
  }
  flush();
}

function drawAxis() {
  const least = (view.to - view.from) * 90 / Math.max(90, size.width - size.label);
  let step = 10 ** Math.ceil(Math.log10(Math.max(least, 1)));
  for (const part of [0.2, 0.5]) if (step * part >= least) { step *= part; break; }
  brush.fillStyle = colours.muted;
  for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) {
    brush.fillRect(Math.round(x(at)), AXIS - 6, 1, 4);
    if (x(at) < size.width - 50) brush.fillText(time(at), x(at) + 3, AXIS - 9);
  }
}

function drawLabel(text, y, strong) {
  brush.fillStyle = strong ? colours.text : colours.muted;
  brush.font = `${strong ? 600 : 400} 12px ${colours.sans}`;
  let told = text;
  while (told.length > 1 && brush.measureText(told).width > size.label - 14) told = `${told.slice(0, -2)}…`;
  brush.fillText(told, strong ? 8 : 14, y);
  brush.font = `12px ${colours.sans}`;
}

function drawChosen(row) {
  if (!chosen || chosen.lane !== row.lane) return;
  const from = Math.max(x(chosen.begin), size.label), to = Math.min(x(chosen.begin + chosen.length), size.width);
  if (to < size.label || from > size.width) return;
  brush.strokeStyle = colours.text;
  brush.lineWidth = 2;
  brush.strokeRect(from, row.y + 2, Math.max(to - from, 2), LANE - 4);
}

function draw() {
  asked = false;
  brush.fillStyle = colours.surface;
  brush.fillRect(0, 0, size.width, size.height);
  brush.font = `12px ${colours.sans}`;
  drawAxis();
  for (const row of rows) {
    if (row.rank === undefined && !row.lane) {
      drawLabel(trace.runs[row.run].name, row.y + 17, true);
    } else if (!row.lane) {
      drawLabel(`rank ${row.rank}`, row.y + 17, true);
      drawExposed(trace.runs[row.run].exposed[row.rank] ?? [], row.y);
    } else {
      drawLabel(row.lane.stream || "host", row.y + LANE / 2 + 4, false);
      drawLane(row.lane, row.y);
      drawChosen(row);
    }
  }
}

function ask() {
  if (!asked) requestAnimationFrame(draw);
  asked = true;
}

// Shows [from, to], kept inside the trace and at least a few nanoseconds wide.
function show(from, to) {
  const span = Math.min(Math.max(to - from, 20), whole.to - whole.from);
  view.from = Math.min(Math.max(from, whole.from), whole.to - span);
  view.to = view.from + span;
  ask();
}
const move = share => show(view.from + share * (view.to - view.from), view.to + share * (view.to - view.from));
function zoom(factor, about = (view.from + view.to) / 2) {
  show(about - (about - view.from) * factor, about + (view.to - about) * factor);
}

function resize() {
  const ratio = devicePixelRatio || 1, width = $("stage").clientWidth;
  size = {width, height: height + 6, label: Math.min(170, Math.round(width / 4))};
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(size.height * ratio);
  canvas.style.height = `${size.height}px`;
  brush.setTransform(ratio, 0, 0, ratio, 0, 0);
  draw();
}

// The event under a place of the canvas, or null.
function at(px, py) {
  const row = rows.find(r => r.lane && py >= r.y && py < r.y + LANE);
  if (!row || px < size.label) return null;
  const slack = 2 / scale(), ns = when(px), e = row.lane.events;
  let best = null, shortest = Infinity;
  for (let i = firstAfter(row.lane, ns - slack); i < row.lane.count && e[i * FIELDS] <= ns + slack; ++i) {
    const length = e[i * FIELDS + 1];
    if (e[i * FIELDS] + length >= ns - slack && length <= shortest) [best, shortest] = [i, length];
  }
  return best === null ? null : event(row.lane, best);
}
