"use strict";
// Draws the account. All text is set by textContent, and no text of the log is ever HTML.
(() => {
	const byId = (id) => document.getElementById(id);
	const dark = matchMedia("(prefers-color-scheme: dark)");
	const ink = () => getComputedStyle(document.body).color;
	const faint = () => (dark.matches ? "#444" : "#ddd");
	// Bars differ in colour, height and hatching, so that each of these is enough.
	const looks = {
		compute: { lane: 0, color: "#5b8def", height: 0.3, hatch: 0 },
		write: { lane: 0, color: "#e69f00", height: 1, hatch: 0 },
		encode: { lane: 0, color: "#009e73", height: 0.8, hatch: 4 },
		flush: { lane: 0, color: "#cc79a7", height: 1, hatch: 8 },
		background: { lane: 1, color: "#cc79a7", height: 0.6, hatch: 8 },
		restart: { lane: 0, color: "#56b4e9", height: 0.6, hatch: 0 },
		rebuild: { lane: 2, color: "#0072b2", height: 0.8, hatch: 4 },
		fetch: { lane: 2, color: "#999999", height: 0.5, hatch: 8 },
		launch: { lane: 0, color: "#8a8f98", height: 0.3, hatch: 0 },
		end: { lane: 0, color: "#8a8f98", height: 0.2, hatch: 4 },
		other: { lane: 0, color: "#8a8f98", height: 0.12, hatch: 0 },
		down: { lane: 0, color: "#d55e00", height: 0.12, hatch: 0 },
	};
	const called = { encode: "protect", background: "protect or flush in the background", launch: "launch", end: "end of the run", down: "down" };
	const drawn = { runs: 0, checkpoints: 0, failures: 0, spans: 0 };
	const report = (window.report = { drawn, ready: false });

	const when = (t) => new Date((account.zero + t) * 1000).toISOString().replace("T", " ").slice(0, 19);
	const name = (n) => (n < 0 ? "" : account.names[n]);
	const kind = (s) => account.kinds[s[0]];
	const cell = (row, text) => {
		const at = row.insertCell(), titles = row.closest && row.dataset.of ? byId(row.dataset.of).tHead.rows[0].cells : [];
		at.textContent = text;
		if (titles[at.cellIndex]) at.dataset.label = titles[at.cellIndex].textContent; // for a narrow screen
		return at;
	};

	byId("lines").textContent = account.lines.join("\n");
	byId("headline").textContent = account.headline;
	for (const line of account.summary) byId("summary").appendChild(document.createElement("li")).textContent = line;
	if (account.problem) {
		byId("problem").textContent = account.problem;
		byId("problem").hidden = false;
	}
	const spans = account.spans || [], sets = account.sets || [], failures = account.failures || [], runs = account.runs;
	const longest = spans.reduce((m, s) => Math.max(m, s[2] - s[1]), 0);
	spans.sort((a, b) => a[1] - b[1]);
	const end = Math.max(1e-3, ...[0].concat(
		[spans.reduce((m, s) => Math.max(m, s[2]), 0), runs.reduce((m, r) => Math.max(m, r.end), 0)]));

	// Only kinds that there are have a lane and a line in the legend.
	const used = new Set(spans.map(kind));
	const lanes = ["program", "background", "rebuild, fetch"].filter((_, i) => i === 0 || account.kinds.some((k) => used.has(k) && looks[k].lane === i));
	if (lanes.length === 2 && lanes[1] === "rebuild, fetch") looks.rebuild.lane = looks.fetch.lane = 1;
	const head = 34; // pixels above the lanes, for labels

	// first is the index of the first span that may end after t.
	const first = (t) => {
		let low = 0, high = spans.length;
		while (low < high) {
			const mid = (low + high) >> 1;
			if (spans[mid][1] < t) low = mid + 1; else high = mid;
		}
		return low;
	};

	const bar = (ctx, look, x, y, w, h) => {
		ctx.fillStyle = look.color;
		ctx.fillRect(x, y, w, h);
		if (look.hatch && w > 6) {
			ctx.save();
			ctx.beginPath();
			ctx.rect(x, y, w, h);
			ctx.clip();
			ctx.strokeStyle = ink();
			ctx.lineWidth = 1;
			ctx.beginPath();
			for (let at = x - h; at < x + w; at += look.hatch) {
				ctx.moveTo(at, y + h);
				ctx.lineTo(at + h, y);
			}
			ctx.stroke();
			ctx.restore();
		}
	};
	const ratio = () => devicePixelRatio || 1;
	const above = (u) => u.bbox.top + head * ratio();
	const laneOf = (u) => (u.bbox.height - head * ratio()) / lanes.length;
	const place = (u, look) => {
		const lane = laneOf(u), h = lane * 0.8 * look.height;
		return [above(u) + lane * (look.lane + 1) - lane * 0.1 - h, h];
	};

	const draw = (u) => {
		const ctx = u.ctx, from = u.scales.x.min, to = u.scales.x.max;
		drawn.runs = drawn.checkpoints = drawn.failures = drawn.spans = 0;
		ctx.font = 11 * ratio() + "px sans-serif";
		if (!narrow()) {
			ctx.textAlign = "right";
			ctx.fillStyle = ink();
			lanes.forEach((text, i) => ctx.fillText(text, u.bbox.left - 8 * ratio(), above(u) + laneOf(u) * (i + 0.9)));
		}
		ctx.textAlign = "left";
		ctx.save();
		ctx.beginPath();
		ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
		ctx.clip();
		for (let i = first(from - longest); i < spans.length && spans[i][1] <= to; i++) {
			const s = spans[i];
			if (s[2] < from) continue;
			const look = looks[kind(s)], [y, h] = place(u, look);
			const x = u.valToPos(Math.max(s[1], from), "x", true), right = u.valToPos(Math.min(s[2], to), "x", true);
			ctx.globalAlpha = Math.min(1, Math.max(0.3, right - x)); // what is narrower than a pixel is fainter, not wider
			bar(ctx, look, x, y, Math.max(right - x, 1), h);
			ctx.globalAlpha = 1;
			drawn.spans++;
			if (kind(s) === "write") drawn.checkpoints++;
		}
		ctx.strokeStyle = ctx.fillStyle = ink();
		ctx.lineWidth = 1;
		ctx.font = 11 * ratio() + "px sans-serif";
		const edge = u.bbox.left + u.bbox.width, low = u.bbox.top + u.bbox.height;
		// Labels are above the lanes, and only where the one before leaves room. One that would be cut at the right edge ends there.
		const label = (text, x, y, free) => {
			const w = ctx.measureText(text).width, left = Math.max(u.bbox.left, Math.min(x, edge - w));
			if (left < free) return free;
			ctx.fillText(text, left, y);
			return left + w + 8 * ratio();
		};
		let free = -1;
		for (const r of runs) {
			if (r.end < from || r.start > to) continue;
			drawn.runs++;
			const x = u.valToPos(Math.max(r.start, from), "x", true);
			if (r.start >= from) {
				ctx.beginPath();
				ctx.setLineDash([3, 3]);
				ctx.moveTo(x, u.bbox.top);
				ctx.lineTo(x, low);
				ctx.stroke();
			}
			free = label("run " + r.n, x + 4 * ratio(), u.bbox.top + 11 * ratio(), free);
		}
		ctx.setLineDash([]);
		free = -1;
		for (const f of failures) {
			if (f.start < from || f.start > to) continue;
			drawn.failures++;
			const x = u.valToPos(f.start, "x", true), y = u.bbox.top + 24 * ratio(), d = 4 * ratio();
			ctx.beginPath();
			ctx.lineWidth = 2 * ratio();
			ctx.moveTo(x - d, y - d); ctx.lineTo(x + d, y + d);
			ctx.moveTo(x + d, y - d); ctx.lineTo(x - d, y + d);
			ctx.stroke();
			const text = f.why.split(":")[0].slice(0, 20) + " lost", w = ctx.measureText(text).width;
			free = label(text, x - w - 8 * ratio() < Math.max(free, u.bbox.left) ? x + 8 * ratio() : x - w - 8 * ratio(), y + d, Math.max(free, 0));
		}
		ctx.restore();
	};

	const point = (u) => {
		const { left, top } = u.cursor, hover = byId("hover");
		hover.textContent = "\u00a0";
		if (left == null || left < 0) return;
		const t = u.posToVal(left, "x"), near = u.posToVal(left + 3, "x") - t;
		let best = null;
		for (let i = first(t - longest - near); i < spans.length && spans[i][1] <= t + near; i++) {
			const s = spans[i], look = looks[kind(s)];
			if (s[2] < t - near || look.lane !== Math.floor((top - head) * ratio() / laneOf(u))) continue;
			if (!best || s[2] - s[1] < best[2] - best[1]) best = s;
		}
		if (!best) return;
		let text = `${kind(best)} ${name(best[4])} of run ${runs[best[3]].n}: ${when(best[1])} UTC, ${(best[2] - best[1]).toPrecision(4)} s`;
		if (best[5] >= 0) text += ", failed: " + name(best[5]);
		hover.textContent = text;
	};

	const axis = (extra) => Object.assign({ stroke: ink, grid: { stroke: faint }, ticks: { stroke: faint } }, extra);
	const width = () => document.querySelector("#times").clientWidth;
	const narrow = () => width() < 600;
	const charts = [];
	const timeline = new uPlot({
		width: width(), height: head + 56 + 48 * lanes.length, legend: { show: false },
		scales: { x: { time: false, min: 0, max: end, range: (u, min, max) => (min == null || min >= max ? [0, end] : [min, max]) }, y: { range: [0, lanes.length] } },
		axes: [
			axis({ values: (u, list) => list.map((t) => (t === null ? "" : when(t).slice(end > 86400 ? 5 : 11, 19))), space: 90, incrs: [0.001, 0.01, 0.1, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000] }),
			axis({ size: () => (narrow() ? 30 : 110), grid: { show: false }, ticks: { show: false }, splits: () => [], values: () => [] }),
		],
		series: [{}, { show: true, stroke: "transparent", points: { show: false } }],
		cursor: { y: false, drag: { x: true, y: false }, points: { show: false } },
		hooks: { draw: [draw], setCursor: [point] },
	}, [[0, end], [null, null]], byId("timeline"));
	charts.push(timeline);
	const zoom = (from, to) => timeline.setScale("x", { min: from, max: Math.max(to, from + 1e-3) });
	report.zoom = zoom;
	report.scale = () => [timeline.scales.x.min, timeline.scales.x.max];

	// hide leaves out the section of what is empty.
	const hide = (id) => { byId(id).closest("section").hidden = true; };
	// A chart has a point for each checkpoint that has the value, and no line for a series without any.
	const chart = (id, series) => {
		const there = series.map(([label, color, value]) => ({ label, color, values: sets.map(value) })).filter((s) => s.values.some((v) => v !== null));
		if (there.length === 0) {
			hide(id);
			return;
		}
		const dashes = { flush: [2, 3], protect: [6, 3] }, x = sets.map((_, i) => i + 1);
		charts.push(new uPlot({
			width: width(), height: 220,
			scales: { x: { time: false, range: (u, min, max) => [min - 0.5, max + 0.5] }, y: { range: (u, min, max) => [0, max > 0 ? max * 1.1 : 1] } },
			axes: [axis({ incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000], label: "checkpoint", size: 32, labelSize: 18, labelGap: 0, labelFont: "12px sans-serif" }), axis({ size: 60 })],
			series: [{ label: "checkpoint", value: (u, v) => (v == null ? "" : `${v}: ${name(sets[v - 1][2])}`) }].concat(
				there.map((s) => ({ label: s.label, stroke: s.color, dash: dashes[s.label], width: x.length < 60 ? 1.5 : 1,
					value: (u, v) => (v == null ? "" : v.toPrecision(3)), points: { show: x.length < 300 || s.values.includes(null), size: x.length < 60 ? 6 : 4, fill: s.color } }))),
			cursor: { drag: { x: true, y: false }, sync: { key: "checkpoints" } },
		}, [x].concat(there.map((s) => s.values)), byId(id)));
	};
	const known = (v) => (v > 0 ? v : null); // what the log does not tell is no zero
	const rate = (bytes, seconds) => (seconds > 0 && bytes > 0 ? bytes / seconds / 1e6 : null);
	const three = [["write", "#e69f00", 3], ["protect", "#009e73", 4], ["flush", "#cc79a7", 5]];
	chart("seconds", three.map(([label, color, i]) => [label, color, (s) => known(s[i])]));
	chart("rates", three.map(([label, color, i]) => [label, color, (s) => rate(s[6], s[i])]));
	chart("bytes", [["MB", "#5b8def", (s) => known(s[6] / 1e6)]]);

	const body = byId("runs").tBodies[0];
	const table = document.createDocumentFragment();
	for (const r of runs) {
		const row = document.createElement("tr");
		row.dataset.of = "runs";
		for (const text of [r.n, when(r.start), r.length, r.nodes || "", r.sets, r.from, r.outcome, r.why]) cell(row, text);
		const show = () => zoom(r.start - (r.end - r.start) * 0.02, r.end + (r.end - r.start) * 0.02);
		row.tabIndex = 0;
		row.addEventListener("click", show);
		row.addEventListener("keydown", (e) => { if (e.key === "Enter") show(); });
		table.appendChild(row);
	}
	body.appendChild(table);
	for (const n of account.nodes || []) {
		const row = byId("nodes").tBodies[0].insertRow();
		for (const text of [n.node, n.times, ((100 * n.times) / n.of).toFixed(1) + " %"]) cell(row, text);
	}
	for (const f of failures) {
		const row = byId("failures").tBodies[0].insertRow();
		row.dataset.of = "failures";
		for (const text of [when(f.start), f.n, f.why]) cell(row, text);
	}
	if (!failures.length) hide("failures");
	if (!(account.nodes || []).length) hide("nodes");

	// swatch draws a kind as the timeline has it.
	const swatch = (k, w, h, height) => {
		const canvas = document.createElement("canvas"), look = looks[k];
		canvas.width = w;
		canvas.height = h;
		bar(canvas.getContext("2d"), look, 0, h - h * height, w, h * height);
		return canvas;
	};
	const parts = [];
	const drawTimes = () => {
		for (const [cell, k, w, h, height] of parts) {
			if (cell.firstChild instanceof HTMLCanvasElement) cell.firstChild.remove();
			cell.prepend(swatch(k, w, h, height));
		}
	};
	const uses = byId("times").tBodies[0];
	for (const u of account.uses) {
		const row = uses.insertRow(), what = cell(row, u.what);
		for (const text of [u.length, u.share, u.note]) cell(row, text);
		row.className = u.what === "all" ? "sum" : u.beside ? "beside" : "";
		if (!looks[u.kind]) continue;
		parts.push([what, u.kind, 14, 14, 1]);
		if (u.beside) continue;
		const piece = byId("bar").appendChild(document.createElement("div"));
		piece.style.flex = `${u.seconds} 0 0`;
		piece.style.overflow = "hidden";
		piece.title = `${u.what} ${u.length}, ${u.share}`;
		parts.push([piece, u.kind, 1200, 30, 1]);
	}
	for (const k of account.kinds.filter((k) => used.has(k))) {
		const item = document.createElement("li");
		item.append(called[k] || k);
		parts.push([item, k, 28, 14, looks[k].height]);
		byId("legend").appendChild(item);
	}
	if (failures.length) byId("legend").appendChild(Object.assign(document.createElement("li"), { textContent: "\u2715 a node is lost" }));
	drawTimes();

	addEventListener("resize", () => charts.forEach((c) => c.setSize({ width: width(), height: c.height })));
	dark.addEventListener("change", () => { charts.forEach((c) => c.redraw()); drawTimes(); });
	timeline.root.addEventListener("dblclick", () => zoom(0, end));
	requestAnimationFrame(() => requestAnimationFrame(() => { report.ready = true; }));
})();
