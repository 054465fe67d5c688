package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/goscr/goscr/test/browser"
)

// made makes the site of the project.
func made(t *testing.T) (dir string, s *site) {
	t.Helper()
	s, err := read("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := s.write(dir); err != nil {
		t.Fatal(err)
	}
	return dir, s
}

var reference = regexp.MustCompile(`(?:href|src)="([^"]+)"`)

// Whatever a page of the site refers to is there.
func TestSite(t *testing.T) {
	dir, s := made(t)
	pages, err := filepath.Glob(filepath.Join(dir, "*.html"))
	if err != nil || len(pages) != len(s.pages) || len(pages) < 40 {
		t.Fatalf("%d files of %d pages, %v", len(pages), len(s.pages), err)
	}
	found := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range reference.FindAllStringSubmatch(string(text), -1) {
			file, _, _ := strings.Cut(m[1], "#")
			if file == "" || strings.Contains(file, "://") || strings.HasPrefix(file, "mailto:") {
				continue
			}
			found++
			if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
				t.Errorf("%s refers to %s: %v", filepath.Base(page), m[1], err)
			}
		}
	}
	if found < 1000 {
		t.Errorf("%d references", found)
	}
}

// What is wrong in sources ends the build, and the error names it.
func TestSite_Bad(t *testing.T) {
	for _, x := range []struct{ name, file, text, want string }{
		{"a page in no section", "docs/more.md", "# More\n", "docs/more.md is in no section"},
		{"a link to no page", "docs/use.md", "# Use\n[x](none.md)\n", "docs/use.md: a link to none.md, which is not there"},
		{"a link to no heading", "docs/use.md", "# Use\n[x](run.md#nothing)\n", "docs/use.md: a link to #nothing of docs/run.md"},
		{"a link to no heading of its own", "docs/use.md", "# Use\n[x](#nothing)\n", "docs/use.md: a link to #nothing of docs/use.md"},
		{"a link to another place", "docs/use.md", "# Use\n[x](../../etc/passwd)\n", "outside of the sources"},
		{"no heading", "docs/use.md", "text\n", "docs/use.md: has no heading"},
	} {
		root := t.TempDir()
		put := func(name, text string) {
			path := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, section := range sections {
			for _, page := range section.pages {
				put(filepath.Join("docs", page+".md"), "# A page\n## A heading, with `code`\n[itself](#a-heading-with-code)\n")
			}
		}
		if _, err := read(root); err != nil {
			t.Fatal(err)
		}
		put(x.file, x.text)
		if _, err := read(root); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v", x.name, err)
		}
	}
}

// The ids of headings are those to which pages on GitHub link.
func TestSlugs(t *testing.T) {
	s := &slugs{used: map[string]int{}}
	for _, x := range [][2]string{
		{"Following one checkpoint", "following-one-checkpoint"},
		{"SCR_FLUSH, and `scr_run`", "scr_flush-and-scr_run"},
		{"From \"it fails\" to 89,900", "from-it-fails-to-89900"},
		{"Again", "again"}, {"Again", "again-1"}, {"again", "again-2"},
	} {
		if got := string(s.Generate([]byte(x[0]), 0)); got != x[1] {
			t.Errorf("%q: %q, want %q", x[0], got, x[1])
		}
	}
}

// The site can be read and searched on each screen. GOSCR_SCREENSHOTS keeps pictures.
func TestBrowser_Site(t *testing.T) {
	dir, _ := made(t)
	b := browser.New(t)
	open := func(page string) {
		b.Do(chromedp.Navigate("file://" + filepath.Join(dir, page)))
		b.Poll(`document.readyState === "complete"`)
	}
	for _, s := range browser.Screens {
		b.Use(s)
		for _, page := range []string{"index", "config", "run"} {
			open(page + ".html")
			if over := b.Wider("table, pre"); len(over) > 0 {
				t.Errorf("%s on %s: wider than the screen: %q", page, s.Name, over)
			}
			paper := browser.Get[string](b, "getComputedStyle(document.body).backgroundColor")
			if (paper == "rgb(255, 255, 255)") != (s.Scheme == "light") {
				t.Errorf("%s on %s: the paper is %s", page, s.Name, paper)
			}
			if n := browser.Get[int](b, `document.querySelectorAll("nav [aria-current]").length`); n != 1 {
				t.Errorf("%s on %s: %d pages are the current one", page, s.Name, n)
			}
		}
		open("index.html")
		want := map[string]string{"light": "img/report.png", "dark": "img/report-dark.png"}[s.Scheme]
		if shown := browser.Get[[]string](b, `[...document.querySelectorAll("img")].filter((i) => i.checkVisibility()).map((i) => i.getAttribute("src").split("#")[0])`); !slices.Contains(shown, want) || len(shown) != 2 {
			t.Errorf("%s: it shows %q, want %s and another one", s.Name, shown, want)
		}
		if shown := browser.Get[bool](b, `document.getElementById("pages").open`); shown != (s.Width > 600) {
			t.Errorf("%s: the list of pages is shown: %v", s.Name, shown)
		}
		open("run.html")
		b.Shoot("site-" + s.Name)
		open("index.html?q=SCR_FLUSH%20checkpoint")
		b.Poll(`document.getElementById("found").dataset.ready === "SCR_FLUSH checkpoint"`)
		if n := browser.Get[int](b, `document.querySelectorAll("#found a").length`); n < 2 {
			t.Errorf("%s: %d places are found", s.Name, n)
		}
		if dead := browser.Get[[]string](b, `[...document.querySelectorAll("#found a")].filter((a) => !a.hash).map((a) => a.href)`); len(dead) > 0 {
			t.Errorf("%s: %q", s.Name, dead)
		}
		if over := b.Wider("table, pre"); len(over) > 0 {
			t.Errorf("what is found on %s: wider than the screen: %q", s.Name, over)
		}
		b.Shoot("site-search-" + s.Name)
		open(`index.html?q=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E`)
		b.Poll(`document.getElementById("found").textContent.includes("No page has all these words.")`)
	}
	b.Quiet()
}
