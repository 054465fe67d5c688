// Package browser opens pages in Chromium for tests, on screens as people have them.
package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Browser is a browser of a test. It keeps what the console says and what pages request.
type Browser struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	said     []string
	requests []string
}

// Screen is a screen on which people read pages.
type Screen struct {
	Name   string
	Scheme string // light or dark
	Width  int64
}

// Screens are those on which pages are tried.
var Screens = []Screen{{"light", "light", 1200}, {"dark", "dark", 1200}, {"phone", "light", 390}}

// New starts a browser, which ends with the test. Without Chromium, and with go test -short, the test is skipped.
func New(t *testing.T) *Browser {
	t.Helper()
	if testing.Short() {
		t.Skip("-short opens no pages in a browser")
	}
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
	b := &Browser{t: t, ctx: ctx}
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
	b.Do(network.Enable(), log.Enable(), runtime.Enable())
	return b
}

// Do does what a user of the browser does. An error ends the test.
func (b *Browser) Do(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// ask evaluates something. While a page is replaced by the next one, the browser may look for the context of
// the former; then it is asked again.
func (b *Browser) ask(action chromedp.Action) {
	b.t.Helper()
	err := chromedp.Run(b.ctx, action)
	for b.ctx.Err() == nil && replaced(err) {
		err = chromedp.Run(b.ctx, action)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// replaced reports whether an error of the browser says that the page is no longer there.
func replaced(err error) bool {
	var answer *cdproto.Error
	return errors.As(err, &answer) && answer.Code == -32000 && strings.Contains(answer.Message, "context")
}

// Poll waits until an expression of the page is true.
func (b *Browser) Poll(expression string) {
	b.t.Helper()
	b.ask(chromedp.Poll(expression, nil, chromedp.WithPollingTimeout(0)))
}

// Get evaluates an expression.
func Get[T any](b *Browser, expression string) (value T) {
	b.t.Helper()
	b.ask(chromedp.Evaluate(expression, &value))
	return value
}

// Use gives the browser a screen.
func (b *Browser) Use(s Screen) {
	b.t.Helper()
	b.Do(emulation.SetDeviceMetricsOverride(s.Width, 900, 1, s.Width < 600),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: s.Scheme}}))
}

// Quiet checks that the console was quiet and that only files were requested.
func (b *Browser) Quiet() {
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

// Wider returns the visible elements that are wider than the screen, without those that a reader can scroll.
func (b *Browser) Wider(scrolled string) []string {
	b.t.Helper()
	return Get[[]string](b, fmt.Sprintf(`[...document.querySelectorAll("body *")].filter((e) => e.checkVisibility() && !e.closest(%q) && e.tagName !== "CANVAS" &&
		e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.tagName + " " + e.id)`, scrolled))
}

// Shoot keeps a picture of the page, if GOSCR_SCREENSHOTS names a directory for it.
func (b *Browser) Shoot(name string) {
	b.t.Helper()
	var picture []byte
	b.Do(chromedp.FullScreenshot(&picture, 100))
	if len(picture) < 1000 {
		b.t.Errorf("a picture of %d bytes", len(picture))
	}
	if dir := os.Getenv("GOSCR_SCREENSHOTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644); err != nil {
			b.t.Error(err)
		}
	}
}
