package page

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cdp "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/goscr/goscr/internal/observe/account"
	"github.com/goscr/goscr/test/accounttest"
	"github.com/goscr/goscr/test/browser"
	"github.com/goscr/goscr/test/sample"
)

// tab is a browser that opens pages of logs.
type tab struct {
	*browser.Browser
	t *testing.T
}

func newTab(t *testing.T) *tab {
	t.Helper()
	return &tab{browser.New(t), t}
}

// open writes the page of a log to a file and opens it.
func (b *tab) open(text string) (a *account.Account, size int, took time.Duration) {
	b.t.Helper()
	a = read(b.t, text)
	path := filepath.Join(b.t.TempDir(), "report.html")
	var page bytes.Buffer
	must(b.t, HTML(&page, a))
	must(b.t, os.WriteFile(path, page.Bytes(), 0o600))
	start := time.Now()
	b.Do(chromedp.Navigate("file://" + path))
	b.Poll("window.report && window.report.ready")
	return a, page.Len(), time.Since(start)
}

type counts struct{ Runs, Checkpoints, Failures, Spans int }

func TestBrowser_DrawsAll(t *testing.T) {
	b := newTab(t)
	a, _, _ := b.open(accounttest.Job{ID: "job1", Name: "heat", Node: "node2", Runs: 3, Checkpoints: 8}.Text())
	b.Quiet()
	spans := 0
	for _, run := range a.Runs {
		spans += len(run.Spans)
	}
	if got, want := browser.Get[counts](b.Browser, "report.drawn"), (counts{3, 24, 2, spans}); got != want {
		t.Errorf("drawn %+v, want %+v", got, want)
	}
	if n := browser.Get[int](b.Browser, `document.querySelectorAll("#runs tbody tr").length`); n != 3 {
		t.Errorf("%d rows", n)
	}
	if n := browser.Get[int](b.Browser, `document.querySelectorAll(".uplot canvas").length`); n != 4 {
		t.Errorf("%d charts", n)
	}
	b.Shoot("page")

	// A bar reports itself.
	type point struct{ X, Y float64 }
	at := browser.Get[point](b.Browser, `(() => { const r = document.querySelector("#timeline .u-over").getBoundingClientRect(), s = report.scale();
		const write = account.spans.find((s) => account.kinds[s[0]] === "write");
		return { X: r.left + r.width * ((write[1] + write[2]) / 2 - s[0]) / (s[1] - s[0]), Y: r.top + 70 }; })()`)
	b.Do(chromedp.MouseEvent("mouseMoved", at.X, at.Y))
	b.Do(chromedp.Poll(`document.getElementById("hover").textContent.startsWith("write ckpt.1 of run 1: 2026-11-21 00:00:11 UTC, 2.000 s")`, nil, chromedp.WithPollingTimeout(0)))

	// Dragging zooms, a double click shows all, and so does a row one run.
	whole := browser.Get[[]float64](b.Browser, "report.scale()")
	b.Do(chromedp.MouseEvent("mousePressed", at.X, at.Y, chromedp.Button("left"), chromedp.ClickCount(1)),
		chromedp.MouseEvent("mouseMoved", at.X+100, at.Y, chromedp.Button("left")),
		chromedp.MouseEvent("mouseReleased", at.X+100, at.Y, chromedp.Button("left"), chromedp.ClickCount(1)),
		chromedp.Poll("report.drawn.spans < account.spans.length", nil, chromedp.WithPollingTimeout(0)))
	if now := browser.Get[[]float64](b.Browser, "report.scale()"); now[1]-now[0] > (whole[1]-whole[0])/2 {
		t.Errorf("zoomed from %v to %v", whole, now)
	}
	b.Do(chromedp.Evaluate(`document.querySelector("#runs tbody tr:nth-child(2)").click()`, nil), chromedp.Poll("report.drawn.checkpoints === 8", nil, chromedp.WithPollingTimeout(0)))
	b.Do(chromedp.Focus("#runs tbody tr:nth-child(3)"), chromedp.KeyEvent(kb.Enter), chromedp.Poll("report.scale()[0] > account.runs[1].start", nil, chromedp.WithPollingTimeout(0)))
	b.Quiet()
}

// Names in the log that are HTML, scripts or SQL are text.
func TestBrowser_NamesAreText(t *testing.T) {
	b := newTab(t)
	const evil = `</script><img src=http://127.0.0.1:9/x onerror="window.hit=1"><script>window.hit=1</script>'; DROP TABLE jobs; -- ${window.hit=1} {{.}}`
	text := accounttest.Job{ID: evil, Name: evil, Node: evil, Runs: 2, Checkpoints: 3}.Text()
	text = strings.ReplaceAll(text, `"node3: no answer"`, fmt.Sprintf("%q", evil))
	text = strings.ReplaceAll(text, `name="ckpt.2"`, fmt.Sprintf("name=%q", evil))
	b.open(text)
	if browser.Get[bool](b.Browser, `"hit" in window || document.images.length > 0 || document.scripts.length !== 3`) {
		t.Error("text of the log has become HTML")
	}
	for _, expression := range []string{`document.querySelector("h1").textContent`, `document.title`, `document.getElementById("nodes").textContent`,
		`document.getElementById("failures").textContent`, `account.names.join()`, `document.getElementById("lines").textContent`} {
		if got := browser.Get[string](b.Browser, expression); !strings.Contains(got, evil) {
			t.Errorf("%s is %q", expression, got)
		}
	}
	b.Quiet()
}

// A page with 10,000 checkpoints of 1,000 runs shows them all.
func TestBrowser_Large(t *testing.T) {
	if sample.Now() == sample.Quick {
		t.Skip("TestBrowser_DrawsAll draws a smaller report")
	}
	b := newTab(t)
	_, size, took := b.open(accounttest.Job{ID: "big", Node: "node1", Runs: 1000, Checkpoints: 10}.Text())
	t.Logf("%d KiB, usable after %v", size>>10, took.Round(time.Millisecond))
	if got := browser.Get[counts](b.Browser, "report.drawn"); got.Runs != 1000 || got.Checkpoints != 10000 || got.Failures != 999 {
		t.Errorf("drawn %+v", got)
	}
	start := time.Now()
	b.Do(chromedp.Evaluate("report.zoom(1000, 2000)", nil), chromedp.Poll("report.drawn.runs < 20", nil, chromedp.WithPollingTimeout(0)))
	t.Logf("zoomed after %v", time.Since(start).Round(time.Millisecond))
	b.Quiet()
}

// heat is the log of a real job: examples/heat with scr_run on six simulated nodes, of which two lost power.
func heat(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/heat.log")
	must(t, err)
	return string(text)
}

// On each screen the page has one column, the headline, and nothing empty. GOSCR_SCREENSHOTS keeps pictures.
func TestBrowser_Screens(t *testing.T) {
	b := newTab(t)
	for _, log := range []struct{ name, text string }{
		{"heat", heat(t)},
		{"200", accounttest.Job{ID: "4712", Name: "long", Node: "node2", Runs: 1, Checkpoints: 200}.Text()},
	} {
		for _, s := range browser.Screens {
			b.Use(s)
			b.open(log.text)
			name := "report-" + log.name + "-" + s.Name
			if over := b.Wider("details"); len(over) > 0 {
				t.Errorf("%s: wider than the screen: %q", name, over)
			}
			if empty := browser.Get[[]string](b.Browser, `[...document.querySelectorAll("section")].filter((s) => s.checkVisibility() && ![...s.querySelectorAll("tbody tr, .uplot")].length).map((s) => s.textContent)`); len(empty) > 0 {
				t.Errorf("%s: empty parts: %q", name, empty)
			}
			if top := browser.Get[float64](b.Browser, `document.getElementById("headline").getBoundingClientRect().top`); top > 60 {
				t.Errorf("%s: the headline is at %v", name, top)
			}
			paper := browser.Get[string](b.Browser, "getComputedStyle(document.body).backgroundColor")
			if (paper == "rgb(255, 255, 255)") != (s.Scheme == "light") {
				t.Errorf("%s: the paper is %s", name, paper)
			}
			b.Shoot(name)
		}
	}
	if n := browser.Get[int](b.Browser, `[...document.querySelectorAll("#legend li")].filter((li) => /lost|rebuild|down/.test(li.textContent)).length`); n > 0 {
		t.Errorf("the legend has %d kinds that the job without a failure does not have", n)
	}
	b.Quiet()
}

// The pictures of README.md are the upper part of the report of a real run. make pictures writes them.
func TestBrowser_Picture(t *testing.T) {
	if sample.Now() == sample.Quick {
		t.Skip("TestBrowser_DrawsAll draws the same page")
	}
	b := newTab(t)
	for name, screen := range map[string]browser.Screen{"report.png": browser.Screens[0], "report-dark.png": browser.Screens[1]} {
		b.Use(screen)
		b.open(heat(t))
		end := browser.Get[float64](b.Browser, `document.querySelector("#hover").getBoundingClientRect().top + 4`)
		var picture []byte
		b.Do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
			picture, err = cdp.CaptureScreenshot().WithFormat(cdp.CaptureScreenshotFormatPng).
				WithClip(&cdp.Viewport{Width: 1200, Height: end, Scale: 1}).WithCaptureBeyondViewport(true).Do(ctx)
			return err
		}))
		const most = 150 << 10
		if len(picture) < 10<<10 || len(picture) > most || end < 500 || end > 1000 {
			t.Errorf("%s: a picture of %d bytes, %v high", name, len(picture), end)
		}
		if dir := os.Getenv("GOSCR_PICTURES"); dir != "" {
			must(t, os.WriteFile(filepath.Join(dir, name), picture, 0o644))
		}
		info, err := os.Stat(filepath.Join("../../../../docs/img", name))
		if err != nil || info.Size() > most {
			t.Errorf("%s of README.md: %v %v; make pictures makes it", name, info, err)
		}
	}
}
