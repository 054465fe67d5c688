package main

import (
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"

	jobstatus "github.com/goscr/goscr/internal/observe/status"
	"github.com/goscr/goscr/test/sample"
)

// theme is the colours of a terminal: those of xterm, with paper and ink.
type theme map[tcell.Color]string

var (
	light = theme{tcell.ColorDefault: "#ffffff", tcell.ColorReset: "#000000", tcell.ColorGreen: "#00cd00", tcell.ColorYellow: "#cdcd00", tcell.ColorRed: "#cd0000", tcell.ColorBlack: "#000000", tcell.ColorWhite: "#ffffff"}
	dark  = theme{tcell.ColorDefault: "#000000", tcell.ColorReset: "#e5e5e5", tcell.ColorGreen: "#00cd00", tcell.ColorYellow: "#cdcd00", tcell.ColorRed: "#cd0000", tcell.ColorBlack: "#000000", tcell.ColorWhite: "#ffffff"}
)

// picture is what a terminal shows, as HTML of a font of fixed width.
func picture(s tcell.SimulationScreen, colours theme) string {
	cells, width, _ := s.GetContents()
	var b strings.Builder
	fmt.Fprintf(&b, `<meta charset="utf-8"><body style="margin:0;background:%s"><pre style="margin:8px;font:14px/18px monospace">`, colours[tcell.ColorDefault])
	for i, c := range cells {
		front, back, attributes := c.Style.Decompose()
		ink, paper := colours[front], colours[back]
		if front == tcell.ColorDefault {
			ink = colours[tcell.ColorReset]
		}
		weight := "normal"
		if attributes&tcell.AttrReverse != 0 {
			ink, paper = paper, ink
		}
		if attributes&tcell.AttrBold != 0 {
			weight = "bold"
		}
		fmt.Fprintf(&b, `<span style="color:%s;background:%s;font-weight:%s">%s</span>`, ink, paper, weight, html.EscapeString(string(c.Runes)))
		if i%width == width-1 {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// drawn returns a simulated terminal with the status of a job on it, and its text in one line.
func drawn(t *testing.T, lines []string, columns, rows int) (tcell.SimulationScreen, string) {
	t.Helper()
	s := tcell.NewSimulationScreen("UTF-8")
	must(t, s.Init())
	t.Cleanup(s.Fini)
	s.SetSize(columns, rows)
	(&statusScreen{Screen: s, lines: lines}).draw()
	cells, _, _ := s.GetContents()
	var b strings.Builder
	for i, c := range cells {
		if i%columns == 0 {
			b.WriteByte(' ') // between lines
		}
		b.WriteString(string(c.Runes))
	}
	return s, strings.Join(strings.Fields(b.String()), " ")
}

// The status has all its words on a wide terminal and on one of a phone's width. GOSCR_SCREENSHOTS keeps
// pictures, with light and dark colours.
func TestStatus_Screens(t *testing.T) {
	dir, _, _, has := watched(t)
	for id := 2; id <= 4; id++ {
		has(id)
	}
	now := time.Now()
	status, err := jobstatus.Read(dir, now)
	must(t, err)
	lines := status.Lines(now, 0)
	for _, c := range []struct {
		name          string
		columns, rows int
		colours       theme
	}{{"light", 130, 20, light}, {"dark", 130, 20, dark}, {"phone", 44, 40, light}} {
		s, text := drawn(t, lines, c.columns, c.rows)
		for _, line := range lines {
			if want := strings.Join(strings.Fields(line), " "); !strings.Contains(text, want) {
				t.Errorf("%s: no %q in %q", c.name, want, text)
			}
		}
		if to := os.Getenv("GOSCR_SCREENSHOTS"); to != "" {
			shoot(t, picture(s, c.colours), filepath.Join(to, "status-"+c.name+".png"), c.columns*9+16, c.rows*18+16)
		}
	}
}

// A verdict can be read on light and on dark terminals: the contrast of its colours is at least 4.5.
func TestStatus_VerdictIsReadable(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	for _, word := range []string{"SAFE", "AT RISK", "LOST"} {
		front, back, _ := colour(word + ": ckpt.1").Decompose()
		for _, colours := range []theme{light, dark} {
			ink := colours[front]
			if front == tcell.ColorDefault {
				ink = colours[tcell.ColorReset]
			}
			if got := contrast(ink, colours[back]); got < 4.5 {
				t.Errorf("%s: %s on %s has the contrast %.1f", word, ink, colours[back], got)
			}
		}
	}
}

// contrast is that of WCAG 2, of two colours #rrggbb.
func contrast(a, b string) float64 {
	luminance := func(text string) float64 {
		var r, g, b int
		if _, err := fmt.Sscanf(text, "#%02x%02x%02x", &r, &g, &b); err != nil {
			panic(err)
		}
		linear := func(v int) float64 { x := float64(v) / 255; return x * x } // nearly
		return 0.2126*linear(r) + 0.7152*linear(g) + 0.0722*linear(b)
	}
	x, y := luminance(a)+0.05, luminance(b)+0.05
	return max(x, y) / min(x, y)
}

// shoot keeps a picture of a page.
func shoot(t *testing.T, page, path string, width, height int) {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil || sample.Now() == sample.Quick {
		t.Skip("there is no Chromium: scripts/deps chromium installs it")
	}
	file := filepath.Join(t.TempDir(), "page.html")
	must(t, os.WriteFile(file, []byte(page), 0o600))
	out, err := exec.Command(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir="+t.TempDir(),
		"--screenshot="+path, fmt.Sprintf("--window-size=%d,%d", width, height), "file://"+file).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
