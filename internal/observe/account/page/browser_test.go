package page

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdp "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/goscr/goscr/internal/observe/account"
	"github.com/goscr/goscr/test/accounttest"
	"github.com/goscr/goscr/test/sample"
)

// browser opens a page in Chromium, and keeps what its console says and what it requests.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	said     []string
	requests []string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("there is no Chromium: scripts/deps chromium installs it")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, // for root in a container
		chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1200, 1400), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.WSURLReadTimeout(5*time.Minute))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // of a test that hangs
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	// A browser that is killed leaves processes which still write to its directory while it is removed.
	t.Cleanup(func() { _ = chromedp.Cancel(ctx) })
	b := &browser{t: t, ctx: ctx}
	chromedp.ListenTarget(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.said = append(b.said, e.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			b.said = append(b.said, fmt.Sprintf("console.%s", e.Type))
		case *log.EventEntryAdded:
			b.said = append(b.said, e.Entry.Text)
		case *network.EventRequestWillBeSent:
			b.requests = append(b.requests, e.Request.URL)
		}
	})
	b.do(network.Enable(), log.Enable(), runtime.Enable())
	return b
}

func (b *browser) do(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// get evaluates an expression.
func get[T any](b *browser, expression string) (value T) {
	b.t.Helper()
	b.do(chromedp.Evaluate(expression, &value))
	return value
}

// open writes the page of a log to a file and opens it.
func (b *browser) open(text string) (a *account.Account, size int, took time.Duration) {
	b.t.Helper()
	a = read(b.t, text)
	path := filepath.Join(b.t.TempDir(), "report.html")
	var page bytes.Buffer
	must(b.t, HTML(&page, a))
	must(b.t, os.WriteFile(path, page.Bytes(), 0o600))
	start := time.Now()
	b.do(chromedp.Navigate("file://"+path), chromedp.Poll("window.report && window.report.ready", nil, chromedp.WithPollingTimeout(0)))
	return a, page.Len(), time.Since(start)
}

// quiet checks that the console was quiet and that only the page itself was requested.
func (b *browser) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.said) > 0 {
		b.t.Errorf("the console says %q", b.said)
	}
	for _, url := range b.requests {
		if !strings.HasPrefix(url, "file://") && !strings.HasPrefix(url, "data:") {
			b.t.Errorf("the page requests %s", url)
		}
	}
}

// shoot keeps a picture of the page, if GOSCR_SCREENSHOTS names a directory for it.
func (b *browser) shoot(name string) {
	b.t.Helper()
	var picture []byte
	b.do(chromedp.FullScreenshot(&picture, 100))
	if len(picture) < 1000 {
		b.t.Errorf("a picture of %d bytes", len(picture))
	}
	if dir := os.Getenv("GOSCR_SCREENSHOTS"); dir != "" {
		must(b.t, os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644))
	}
}

type counts struct{ Runs, Checkpoints, Failures, Spans int }

func TestBrowser_DrawsAll(t *testing.T) {
	b := newBrowser(t)
	a, _, _ := b.open(accounttest.Job{ID: "job1", Name: "heat", Node: "node2", Runs: 3, Checkpoints: 8}.Text())
	b.quiet()
	spans := 0
	for _, run := range a.Runs {
		spans += len(run.Spans)
	}
	if got, want := get[counts](b, "report.drawn"), (counts{3, 24, 2, spans}); got != want {
		t.Errorf("drawn %+v, want %+v", got, want)
	}
	if n := get[int](b, `document.querySelectorAll("#runs tbody tr").length`); n != 3 {
		t.Errorf("%d rows", n)
	}
	if n := get[int](b, `document.querySelectorAll(".uplot canvas").length`); n != 4 {
		t.Errorf("%d charts", n)
	}
	b.shoot("page")

	// A bar reports itself.
	type point struct{ X, Y float64 }
	at := get[point](b, `(() => { const r = document.querySelector("#timeline .u-over").getBoundingClientRect(), s = report.scale();
		const write = account.spans.find((s) => account.kinds[s[0]] === "write");
		return { X: r.left + r.width * ((write[1] + write[2]) / 2 - s[0]) / (s[1] - s[0]), Y: r.top + 70 }; })()`)
	b.do(chromedp.MouseEvent("mouseMoved", at.X, at.Y))
	b.do(chromedp.Poll(`document.getElementById("hover").textContent.startsWith("write ckpt.1 of run 1: 2026-11-21 00:00:11 UTC, 2.000 s")`, nil, chromedp.WithPollingTimeout(0)))

	// Dragging zooms, a double click shows all, and so does a row one run.
	whole := get[[]float64](b, "report.scale()")
	b.do(chromedp.MouseEvent("mousePressed", at.X, at.Y, chromedp.Button("left"), chromedp.ClickCount(1)),
		chromedp.MouseEvent("mouseMoved", at.X+100, at.Y, chromedp.Button("left")),
		chromedp.MouseEvent("mouseReleased", at.X+100, at.Y, chromedp.Button("left"), chromedp.ClickCount(1)),
		chromedp.Poll("report.drawn.spans < account.spans.length", nil, chromedp.WithPollingTimeout(0)))
	if now := get[[]float64](b, "report.scale()"); now[1]-now[0] > (whole[1]-whole[0])/2 {
		t.Errorf("zoomed from %v to %v", whole, now)
	}
	b.do(chromedp.Evaluate(`document.querySelector("#runs tbody tr:nth-child(2)").click()`, nil), chromedp.Poll("report.drawn.checkpoints === 8", nil, chromedp.WithPollingTimeout(0)))
	b.do(chromedp.Focus("#runs tbody tr:nth-child(3)"), chromedp.KeyEvent(kb.Enter), chromedp.Poll("report.scale()[0] > account.runs[1].start", nil, chromedp.WithPollingTimeout(0)))
	b.quiet()
}

// Names in the log that are HTML, scripts or SQL are text.
func TestBrowser_NamesAreText(t *testing.T) {
	b := newBrowser(t)
	const evil = `</script><img src=http://127.0.0.1:9/x onerror="window.hit=1"><script>window.hit=1</script>'; DROP TABLE jobs; -- ${window.hit=1} {{.}}`
	text := accounttest.Job{ID: evil, Name: evil, Node: evil, Runs: 2, Checkpoints: 3}.Text()
	text = strings.ReplaceAll(text, `"node3: no answer"`, fmt.Sprintf("%q", evil))
	text = strings.ReplaceAll(text, `name="ckpt.2"`, fmt.Sprintf("name=%q", evil))
	b.open(text)
	if get[bool](b, `"hit" in window || document.images.length > 0 || document.scripts.length !== 3`) {
		t.Error("text of the log has become HTML")
	}
	for _, expression := range []string{`document.querySelector("h1").textContent`, `document.title`, `document.getElementById("nodes").textContent`,
		`document.getElementById("failures").textContent`, `account.names.join()`, `document.getElementById("lines").textContent`} {
		if got := get[string](b, expression); !strings.Contains(got, evil) {
			t.Errorf("%s is %q", expression, got)
		}
	}
	b.quiet()
}

// A page with 10,000 checkpoints of 1,000 runs shows them all.
func TestBrowser_Large(t *testing.T) {
	if sample.Now() == sample.Quick {
		t.Skip("TestBrowser_DrawsAll draws a smaller report")
	}
	b := newBrowser(t)
	_, size, took := b.open(accounttest.Job{ID: "big", Node: "node1", Runs: 1000, Checkpoints: 10}.Text())
	t.Logf("%d KiB, usable after %v", size>>10, took.Round(time.Millisecond))
	if got := get[counts](b, "report.drawn"); got.Runs != 1000 || got.Checkpoints != 10000 || got.Failures != 999 {
		t.Errorf("drawn %+v", got)
	}
	start := time.Now()
	b.do(chromedp.Evaluate("report.zoom(1000, 2000)", nil), chromedp.Poll("report.drawn.runs < 20", nil, chromedp.WithPollingTimeout(0)))
	t.Logf("zoomed after %v", time.Since(start).Round(time.Millisecond))
	b.quiet()
}

// screens are those on which people read a report.
var screens = []struct {
	name   string
	scheme string
	width  int64
}{{"light", "light", 1200}, {"dark", "dark", 1200}, {"phone", "light", 390}}

// show opens the page of a log on a screen.
func (b *browser) show(text, scheme string, width int64) {
	b.t.Helper()
	b.do(emulation.SetDeviceMetricsOverride(width, 900, 1, width < 600),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
	b.open(text)
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
	b := newBrowser(t)
	for _, log := range []struct{ name, text string }{
		{"heat", heat(t)},
		{"200", accounttest.Job{ID: "4712", Name: "long", Node: "node2", Runs: 1, Checkpoints: 200}.Text()},
	} {
		for _, s := range screens {
			b.show(log.text, s.scheme, s.width)
			name := "report-" + log.name + "-" + s.name
			if over := get[[]string](b, `[...document.querySelectorAll("body *")].filter((e) => e.checkVisibility() && !e.closest("details") && e.tagName !== "CANVAS" &&
				e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.tagName + " " + e.id)`); len(over) > 0 {
				t.Errorf("%s: wider than the screen: %q", name, over)
			}
			if empty := get[[]string](b, `[...document.querySelectorAll("section")].filter((s) => s.checkVisibility() && ![...s.querySelectorAll("tbody tr, .uplot")].length).map((s) => s.textContent)`); len(empty) > 0 {
				t.Errorf("%s: empty parts: %q", name, empty)
			}
			if top := get[float64](b, `document.getElementById("headline").getBoundingClientRect().top`); top > 60 {
				t.Errorf("%s: the headline is at %v", name, top)
			}
			paper := get[string](b, "getComputedStyle(document.body).backgroundColor")
			if (paper == "rgb(255, 255, 255)") != (s.scheme == "light") {
				t.Errorf("%s: the paper is %s", name, paper)
			}
			b.shoot(name)
		}
	}
	if n := get[int](b, `[...document.querySelectorAll("#legend li")].filter((li) => /lost|rebuild|down/.test(li.textContent)).length`); n > 0 {
		t.Errorf("the legend has %d kinds that the job without a failure does not have", n)
	}
	b.quiet()
}

// The picture of README.md is the upper part of the report of a real run. make pictures writes it.
func TestBrowser_Picture(t *testing.T) {
	if sample.Now() == sample.Quick {
		t.Skip("TestBrowser_DrawsAll draws the same page")
	}
	b := newBrowser(t)
	b.show(heat(t), "light", 1200)
	end := get[float64](b, `document.querySelector("#hover").getBoundingClientRect().top + 4`)
	var picture []byte
	b.do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		picture, err = cdp.CaptureScreenshot().WithFormat(cdp.CaptureScreenshotFormatPng).
			WithClip(&cdp.Viewport{Width: 1200, Height: end, Scale: 1}).WithCaptureBeyondViewport(true).Do(ctx)
		return err
	}))
	const most = 150 << 10
	if len(picture) < 10<<10 || len(picture) > most || end < 500 || end > 1000 {
		t.Errorf("a picture of %d bytes, %v high", len(picture), end)
	}
	if dir := os.Getenv("GOSCR_PICTURES"); dir != "" {
		must(t, os.WriteFile(filepath.Join(dir, "report.png"), picture, 0o644))
	}
	info, err := os.Stat("../../../../docs/img/report.png")
	if err != nil || info.Size() > most {
		t.Errorf("the picture of README.md: %v %v; make pictures makes it", info, err)
	}
}
