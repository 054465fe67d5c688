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
		down: { lane: 0, color: "#d55e00", height: 0.12, hatch: 0 },
	};
	const lanes = ["program", "background", "rebuild, fetch"];
	const drawn = { runs: 0, checkpoints: 0, failures: 0, spans: 0 };
	const report = (window.report = { drawn, ready: false });

	const when = (t) => new Date((account.zero + t) * 1000).toISOString().replace("T", " ").slice(0, 19);
	const name = (n) => (n < 0 ? "" : account.names[n]);
	const kind = (s) => account.kinds[s[0]];
	const cell = (row, text) => { row.insertCell().textContent = text; };

	byId("lines").textContent = account.lines.join("\n");
	if (account.problem) {
		byId("problem").textContent = account.problem;
		byId("problem").hidden = false;
	}
	const spans = account.spans || [], sets = account.sets || [], failures = account.failures || [], runs = account.runs;
	const longest = spans.reduce((m, s) => Math.max(m, s[2] - s[1]), 0);
	spans.sort((a, b) => a[1] - b[1]);
	const end = Math.max(1e-3, ...[0].concat(
		[spans.reduce((m, s) => Math.max(m, s[2]), 0), runs.reduce((m, r) => Math.max(m, r.end), 0)]));

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
	const place = (u, look) => {
		const lane = u.bbox.height / lanes.length, h = lane * 0.8 * look.height;
		return [u.bbox.top + lane * (look.lane + 1) - lane * 0.1 - h, h];
	};

	const draw = (u) => {
		const ctx = u.ctx, from = u.scales.x.min, to = u.scales.x.max;
		drawn.runs = drawn.checkpoints = drawn.failures = drawn.spans = 0;
		ctx.save();
		ctx.beginPath();
		ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
		ctx.clip();
		for (let i = first(from - longest); i < spans.length && spans[i][1] <= to; i++) {
			const s = spans[i];
			if (s[2] < from) continue;
			const look = looks[kind(s)], [y, h] = place(u, look);
			const x = u.valToPos(Math.max(s[1], from), "x", true), right = u.valToPos(Math.min(s[2], to), "x", true);
			bar(ctx, look, x, y, Math.max(right - x, 1), h);
			drawn.spans++;
			if (kind(s) === "write") drawn.checkpoints++;
		}
		ctx.strokeStyle = ctx.fillStyle = ink();
		ctx.lineWidth = 1;
		ctx.font = "11px sans-serif";
		let free = -1; // where the next label has room
		for (const r of runs) {
			if (r.end < from || r.start > to) continue;
			drawn.runs++;
			const x = u.valToPos(r.start, "x", true);
			ctx.beginPath();
			ctx.setLineDash([3, 3]);
			ctx.moveTo(x, u.bbox.top);
			ctx.lineTo(x, u.bbox.top + u.bbox.height);
			ctx.stroke();
			if (x > free) {
				ctx.fillText("run " + r.n, x + 3, u.bbox.top + 11);
				free = x + 50;
			}
		}
		ctx.setLineDash([]);
		for (const f of failures) {
			if (f.start < from || f.start > to) continue;
			drawn.failures++;
			const x = u.valToPos(f.start, "x", true), y = u.bbox.top + u.bbox.height / lanes.length;
			ctx.beginPath();
			ctx.lineWidth = 2;
			ctx.moveTo(x - 5, y - 5); ctx.lineTo(x + 5, y + 5);
			ctx.moveTo(x + 5, y - 5); ctx.lineTo(x - 5, y + 5);
			ctx.stroke();
		}
		ctx.restore();
	};

	const point = (u) => {
		const { left, top } = u.cursor, hover = byId("hover");
		hover.textContent = "\u00a0";
		if (left == null || left < 0) return;
		const ratio = devicePixelRatio || 1, t = u.posToVal(left, "x"), near = u.posToVal(left + 3, "x") - t;
		let best = null;
		for (let i = first(t - longest - near); i < spans.length && spans[i][1] <= t + near; i++) {
			const s = spans[i], look = looks[kind(s)];
			if (s[2] < t - near || look.lane !== Math.floor((top * ratio) / (u.bbox.height / lanes.length))) continue;
			if (!best || s[2] - s[1] < best[2] - best[1]) best = s;
		}
		if (!best) return;
		let text = `${kind(best)} ${name(best[4])} of run ${runs[best[3]].n}: ${when(best[1])} UTC, ${(best[2] - best[1]).toPrecision(4)} s`;
		if (best[5] >= 0) text += ", failed: " + name(best[5]);
		hover.textContent = text;
	};

	const axis = (extra) => Object.assign({ stroke: ink, grid: { stroke: faint }, ticks: { stroke: faint } }, extra);
	const width = () => Math.max(320, document.body.clientWidth - 20);
	const charts = [];
	const timeline = new uPlot({
		width: width(), height: 190, legend: { show: false },
		scales: { x: { time: false, min: 0, max: end, range: (u, min, max) => (min == null || min >= max ? [0, end] : [min, max]) }, y: { range: [0, lanes.length] } },
		axes: [
			axis({ values: (u, list) => list.map((t) => (t === null ? "" : when(t).slice(end > 86400 ? 5 : 11, 19))), space: 90 }),
			axis({ size: 120, grid: { show: false }, splits: () => [2.5, 1.5, 0.5], values: () => lanes }),
		],
		series: [{}, { show: true, stroke: "transparent", points: { show: false } }],
		cursor: { y: false, drag: { x: true, y: false }, points: { show: false } },
		hooks: { draw: [draw], setCursor: [point] },
	}, [[0, end], [null, null]], byId("timeline"));
	charts.push(timeline);
	const zoom = (from, to) => timeline.setScale("x", { min: from, max: Math.max(to, from + 1e-3) });
	report.zoom = zoom;
	report.scale = () => [timeline.scales.x.min, timeline.scales.x.max];

	const chart = (id, series, columns) => {
		const x = sets.map((_, i) => i + 1);
		if (x.length === 0) {
			byId(id).textContent = "There is no checkpoint.";
			return;
		}
		const dashes = [undefined, [6, 3], [2, 3]];
		charts.push(new uPlot({
			width: width(), height: 220,
			scales: { x: { time: false } },
			axes: [axis({}), axis({ size: 70 })],
			series: [{ label: "checkpoint", value: (u, v) => (v == null ? "" : `${v}: ${name(sets[v - 1][2])}`) }].concat(
				series.map(([label, color], i) => ({ label, stroke: color, dash: dashes[i], width: 1.5, spanGaps: true, points: { show: x.length < 60 } }))),
			cursor: { drag: { x: true, y: false }, sync: { key: "checkpoints" } },
		}, [x].concat(columns.map((f) => sets.map(f))), byId(id)));
	};
	const rate = (bytes, seconds) => (seconds > 0 && bytes > 0 ? bytes / seconds / 1e6 : null);
	const three = [["write", "#e69f00"], ["protect", "#009e73"], ["flush", "#cc79a7"]];
	chart("seconds", three, [(s) => s[3], (s) => s[4] || null, (s) => s[5] || null]);
	chart("rates", three, [(s) => rate(s[6], s[3]), (s) => rate(s[6], s[4]), (s) => rate(s[6], s[5])]);
	chart("bytes", [["MB", "#5b8def"]], [(s) => s[6] / 1e6]);

	const body = byId("runs").tBodies[0];
	const table = document.createDocumentFragment();
	for (const r of runs) {
		const row = document.createElement("tr");
		for (const text of [r.n, when(r.start), (r.end - r.start).toFixed(1), r.nodes || "", r.sets, r.from, r.outcome, r.why]) cell(row, text);
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
		for (const text of [when(f.start), f.n, f.why]) cell(row, text);
	}
	for (const k of account.kinds) {
		const item = document.createElement("li"), canvas = document.createElement("canvas"), look = looks[k];
		canvas.width = 36;
		canvas.height = 16;
		bar(canvas.getContext("2d"), look, 0, 16 - 16 * look.height, 36, 16 * look.height);
		item.append(canvas, k === "background" ? "protection or flush in the background" : k);
		byId("legend").appendChild(item);
	}
	byId("legend").appendChild(Object.assign(document.createElement("li"), { textContent: "\u2715 a node is lost" }));

	addEventListener("resize", () => charts.forEach((c) => c.setSize({ width: width(), height: c.height })));
	dark.addEventListener("change", () => charts.forEach((c) => c.redraw()));
	timeline.root.addEventListener("dblclick", () => zoom(0, end));
	requestAnimationFrame(() => requestAnimationFrame(() => { report.ready = true; }));
})();
