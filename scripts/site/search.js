// Searches all pages, without a server: search-index.js has for each heading its page, the page's title,
// the heading, its id, and the text below.
"use strict";

(() => {
    const field = document.getElementById("search");
    const found = document.getElementById("found");
    const most = 20, around = 90;

    // On a narrow screen the list of pages is closed until it is needed.
    if (matchMedia("(max-width: 60rem)").matches) document.getElementById("pages").open = false;

    let loading;
    const load = () => loading ??= new Promise((done, failed) => {
        const script = document.createElement("script");
        script.src = "search-index.js";
        script.onload = done;
        script.onerror = failed;
        document.head.append(script);
    });

    // The text around the first of the words, with all of them marked.
    const excerpt = (text, words) => {
        const lower = text.toLowerCase();
        const at = Math.max(0, Math.min(...words.map((w) => lower.indexOf(w)).filter((i) => i >= 0), text.length) - around);
        const p = document.createElement("p");
        let rest = (at > 0 ? "… " : "") + text.slice(at, at + 3 * around);
        while (rest) {
            const next = words.map((w) => [rest.toLowerCase().indexOf(w), w.length]).filter(([i]) => i >= 0).sort((a, b) => a[0] - b[0])[0];
            if (!next) break;
            const mark = document.createElement("mark");
            mark.textContent = rest.slice(next[0], next[0] + next[1]);
            p.append(rest.slice(0, next[0]), mark);
            rest = rest.slice(next[0] + next[1]);
        }
        p.append(rest);
        return p;
    };

    const points = ([, title, heading, , text], words) => {
        let sum = 0;
        for (const w of words) {
            const n = (heading.toLowerCase().includes(w) ? 10 : 0) + (title.toLowerCase().includes(w) ? 4 : 0) + (text.toLowerCase().includes(w) ? 1 : 0);
            if (!n) return 0;
            sum += n;
        }
        return sum;
    };

    const search = async () => {
        const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
        found.hidden = words.length === 0;
        if (found.hidden) return;
        await load();
        const hits = window.searchIndex.map((e) => [points(e, words), e]).filter(([n]) => n > 0).sort((a, b) => b[0] - a[0]);
        found.replaceChildren();
        const count = document.createElement("p");
        count.textContent = hits.length ? `${hits.length} places${hits.length > most ? `, the best ${most} of them:` : ":"}` : "No page has all these words.";
        found.append(count);
        for (const [, [file, title, heading, id, text]] of hits.slice(0, most)) {
            const a = document.createElement("a");
            a.href = `${file}#${id}`;
            a.textContent = heading === title ? title : `${title}: ${heading}`;
            a.addEventListener("click", () => { field.value = ""; found.hidden = true; });
            found.append(a, excerpt(text, words));
        }
        found.dataset.ready = field.value;
    };

    field.addEventListener("input", search);
    field.addEventListener("focus", load);
    addEventListener("keydown", (e) => {
        if (e.key === "/" && document.activeElement !== field) { e.preventDefault(); field.focus(); }
        if (e.key === "Escape") { field.value = ""; search(); }
    });
    const asked = new URLSearchParams(location.search).get("q");
    if (asked) { field.value = asked; search(); }
})();
