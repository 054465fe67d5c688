package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/sys/lock"
)

// terminal is a pseudoterminal on which a command runs.
type terminal struct {
	t    *testing.T
	ours *os.File
	cmd  *exec.Cmd

	mu   sync.Mutex
	said strings.Builder // all that the command has written
	done chan struct{}   // closed when nothing can write any more
}

// onTerminal starts a command, by the name under which it is linked, on a new terminal. kind is the
// value of TERM.
func onTerminal(t *testing.T, kind string, columns, rows int, argv ...string) *terminal {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudoterminals here: %v", err)
	}
	x := &terminal{t: t, ours: ours, done: make(chan struct{})}
	must(t, unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	must(t, err)
	theirs, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	defer theirs.Close()
	x.resize(columns, rows)
	self, err := os.Executable()
	must(t, err)
	x.cmd = exec.Command(self)
	x.cmd.Args = argv
	x.cmd.Env = append(os.Environ(), "TERM="+kind, "COLORTERM=", "LC_ALL=C.UTF-8")
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = theirs, theirs, theirs
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must(t, x.cmd.Start())
	go func() {
		defer close(x.done)
		buffer := make([]byte, 4096)
		for {
			n, err := ours.Read(buffer)
			x.mu.Lock()
			x.said.Write(buffer[:n])
			x.mu.Unlock()
			if err != nil { // EIO: the command has ended
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = x.cmd.Process.Kill() // has ended, mostly
		_ = x.cmd.Wait()
		ours.Close()
	})
	return x
}

func (x *terminal) resize(columns, rows int) {
	x.t.Helper()
	must(x.t, unix.IoctlSetWinsize(int(x.ours.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: uint16(columns)}))
}

func (x *terminal) press(keys string) {
	x.t.Helper()
	_, err := x.ours.WriteString(keys)
	must(x.t, err)
}

func (x *terminal) output() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.said.String()
}

// control matches what the command tells the terminal to do besides printing.
var control = regexp.MustCompile(`^\x1b(\[([0-9;?>=]*)([ -/]*[@-~])|\][^\x07\x1b]*(\x07|\x1b\\)|[()][A-Z0-9]|[=>78M])`)

// screen is what a terminal shows that has got text: its lines, without blanks at their ends. It
// knows what xterm does with the sequences that are used.
func screen(text string) []string {
	cells := map[[2]int]rune{}
	row, column, last := 0, 0, -1
	for text != "" {
		if m := control.FindStringSubmatch(text); m != nil {
			text = text[len(m[0]):]
			switch m[3] {
			case "H":
				a, b, _ := strings.Cut(m[2], ";")
				row, _ = strconv.Atoi(a)
				column, _ = strconv.Atoi(b)
				row, column = max(row-1, 0), max(column-1, 0)
			case "J":
				clear(cells)
			case "K":
				for at := range cells {
					if at[0] == row && at[1] >= column {
						delete(cells, at)
					}
				}
			}
			continue
		}
		r, size := utf8.DecodeRuneInString(text) // the end of text may be the beginning of a character
		text = text[size:]
		switch r {
		case '\n':
			row++
		case '\r':
			column = 0
		default:
			if r >= ' ' {
				cells[[2]int{row, column}] = r
				column++
			}
		}
	}
	for at := range cells {
		last = max(last, at[0])
	}
	lines := make([]string, last+1)
	for at, r := range cells {
		if r != ' ' {
			lines[at[0]] = fmt.Sprintf("%-*s", at[1]+1, lines[at[0]])
		}
	}
	for i := range lines {
		line := []rune(lines[i])
		for c := range line {
			if r, ok := cells[[2]int{i, c}]; ok {
				line[c] = r
			}
		}
		lines[i] = strings.TrimRight(string(line), " ")
	}
	return lines
}

// shows waits until the screen has all of want, and returns its lines.
func (x *terminal) shows(want ...string) []string {
	x.t.Helper()
	end := time.Now().Add(5 * time.Minute) // of a command that hangs
	for {
		lines := screen(x.output())
		text, missing := strings.Join(lines, "\n"), ""
		for _, w := range want {
			if !strings.Contains(text, w) {
				missing = w
			}
		}
		if missing == "" {
			return lines
		}
		if time.Now().After(end) {
			x.t.Fatalf("no %q on the screen:\n%s\n%q", missing, text, x.output())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// asBefore is the last of what a command does to a terminal: to show again what was there before.
const asBefore = "\x1b[?1049l"

// ends waits until the command has ended, with a status, and returns what it has printed after the
// terminal was as before.
func (x *terminal) ends(status int) string {
	x.t.Helper()
	err := x.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		x.t.Fatal(err)
	}
	<-x.done
	if got := x.cmd.ProcessState.ExitCode(); got != status {
		x.t.Errorf("exit status %d, want %d: %q", got, status, x.output())
	}
	said := x.output()
	i := strings.LastIndex(said, asBefore)
	if i < 0 || strings.Count(said, "\x1b[?1049h") != strings.Count(said, asBefore) {
		x.t.Errorf("the terminal is not as it was: %q", said)
		return said
	}
	return said[i:]
}

// watched is a prefix directory in which a job runs.
func watched(t *testing.T) (dir string, rank0 *lock.Lock, log func(r eventlog.Record), has func(id int)) {
	t.Helper()
	t.Setenv("SCR_PREFIX", "")
	dir = t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, ".scr"), 0o700))
	rank0, err := lock.Try(request.LockPath(dir), lock.Exclusive)
	must(t, err)
	t.Cleanup(rank0.Release)
	log = func(r eventlog.Record) {
		t.Helper()
		f, err := os.OpenFile(eventlog.TextFile(dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		must(t, err)
		r.Time, r.Job.ID = time.Now(), "job7"
		_, err = f.WriteString(r.Line() + "\n")
		must(t, err)
		must(t, f.Close())
	}
	has = func(id int) {
		t.Helper()
		d := dataset.New(id, fmt.Sprint("ckpt.", id), dataset.Checkpoint, id, dataset.Owner{}, time.Now())
		d.SetTotals(4, 2<<20)
		d.SetComplete(true)
		must(t, prefix.EnterCached(dir, prefix.Cached{Dataset: d, Protected: "XOR in sets of 4, bears 1", Read: true}, time.Now()))
	}
	log(eventlog.Record{Type: "INIT_START"})
	log(eventlog.Record{Type: "NODES", Run: &eventlog.Run{Nodes: 4, Ranks: 8, NodeList: "node[0-3]"}})
	has(1)
	return dir, rank0, log, has
}

// On a terminal scr_status -w shows what happens until q is pressed, in a window of any size.
func TestStatus_Terminal(t *testing.T) {
	dir, _, _, has := watched(t)
	x := onTerminal(t, "xterm", 150, 20, "scr_status", "-w", "-p", dir)
	x.shows("job job7   run 1, RUNNING", "nodes node[0-3]", "     1  ckpt.1", "cache (XOR in sets of 4): survives the loss of any one node", "q: quit")
	has(2)
	x.shows("     2  ckpt.2", "     1  ckpt.1")
	for id := 3; id <= 12; id++ {
		has(id)
	}
	x.shows("newest     ckpt.12", "     1  ckpt.1", headings) // 4 lines, an empty one, headings, 12 datasets: all fit
	if !regexp.MustCompile(`\x1b\[(30;)?42m|48;5;2m`).MatchString(x.output()) {
		t.Errorf("SAFE is not green: %q", x.output())
	}
	x.resize(100, 15)
	lines := x.shows("arrows: scroll, lines 1 to ", " of 24", "    12  ckpt.12")
	if len(lines) != 15 || !strings.HasPrefix(lines[14], "q: quit") {
		t.Errorf("in 15 lines:\n%s", strings.Join(lines, "\n"))
	}
	for _, line := range lines {
		if len(line) > 100 {
			t.Errorf("in 100 columns: %q", line)
		}
	}
	x.press("\x1b[B")
	x.shows("lines 2 to ")
	x.press("\x1b[6~\x1b[6~\x1b[6~\x1b[6~")
	x.shows(" to 24 of 24", "     1  ckpt.1")
	x.press("\x1b[H")
	x.shows("lines 1 to ", "job job7")
	x.resize(40, 3) // less than there is to say of the job
	x.shows("q: quit")
	x.resize(150, 30)
	x.shows("    12  ckpt.12", "     1  ckpt.1", "survives the loss of any one node")
	x.press("q")
	if rest := x.ends(0); !strings.Contains(rest, "RUNNING") || strings.Count(rest, "survives the loss of any one node") != 14 {
		t.Errorf("afterwards: %q", rest)
	}
}

// Ctrl-C, signals and the end of the job end it, and the terminal is as before.
func TestStatus_TerminalEnds(t *testing.T) {
	dir, rank0, log, _ := watched(t)
	for _, end := range []func(x *terminal){
		func(x *terminal) { x.press("\x03") },
		func(x *terminal) { must(t, x.cmd.Process.Signal(unix.SIGTERM)) },
		func(x *terminal) { must(t, x.cmd.Process.Signal(unix.SIGINT)) },
		func(x *terminal) {
			log(eventlog.Record{Type: "FINALIZE_END"})
			rank0.Release()
		},
	} {
		x := onTerminal(t, "xterm", 100, 20, "scr_status", "-w", "-p", dir)
		x.shows("RUNNING", "q: quit")
		end(x)
		rest := x.ends(0)
		if !strings.Contains(rest, "ckpt.1") {
			t.Errorf("afterwards: %q", rest)
		}
	}
	// Of a job that is over only lines are left; of an index that is damaged, a message.
	x := onTerminal(t, "xterm", 100, 20, "scr_status", "-w", "-p", dir)
	if rest := x.ends(0); !strings.Contains(rest, "FINISHED") {
		t.Errorf("%q", rest)
	}
	must(t, os.WriteFile(filepath.Join(dir, ".scr/index.scr"), []byte("damaged"), 0o600))
	x = onTerminal(t, "xterm", 100, 20, "scr_status", "-w", "-p", dir)
	if rest := x.ends(1); !strings.Contains(rest, "scr_index --repair") {
		t.Errorf("%q", rest)
	}
}

// What the prefix directory says of names does nothing to the terminal.
func TestStatus_TerminalNames(t *testing.T) {
	dir, _, log, _ := watched(t)
	log(eventlog.Record{Type: "NODES", Run: &eventlog.Run{Nodes: 1, NodeList: "\x1b[2Jevil\x07"}})
	d := dataset.New(2, "日本\x1b]0;evil\x07", dataset.Checkpoint, 2, dataset.Owner{}, time.Now())
	d.SetComplete(true)
	must(t, prefix.EnterCached(dir, prefix.Cached{Dataset: d, Protected: "\x1b[31mevil", Read: true}, time.Now()))
	x := onTerminal(t, "xterm", 150, 20, "scr_status", "-w", "-p", dir)
	x.shows(`\x1b[2Jevil\a`, `\x1b]0;evil\a`, `\x1b[31mevil`)
	x.press("q")
	if said := x.ends(0); strings.Contains(said, "\x1b[2Jevil") || strings.Contains(x.output(), "\x1b[31mevil") {
		t.Errorf("%q", x.output())
	}
}

// A terminal that can only show lines gets them, and so does a pipe.
func TestStatus_Lines(t *testing.T) {
	dir, rank0, log, has := watched(t)
	x := onTerminal(t, "dumb", 80, 20, "scr_status", "-w", "-p", dir)
	for !strings.Contains(x.output(), "ckpt.1") {
		time.Sleep(10 * time.Millisecond)
	}
	must(t, x.cmd.Process.Signal(unix.SIGTERM))
	must(t, x.cmd.Wait())
	<-x.done
	if said := x.output(); strings.Contains(said, "\x1b") || !strings.Contains(said, "RUNNING") {
		t.Errorf("%q", said)
	}

	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self)
	cmd.Args, cmd.Stderr = []string{"scr_status", "-w", "-p", dir}, os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	read := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), "\x1b") {
				t.Errorf("%q", lines.Text())
			}
			if strings.Contains(lines.Text(), want) {
				return
			}
		}
		t.Fatalf("no %q", want)
	}
	read("RUNNING")
	has(5)
	read("     5  ckpt.5")
	log(eventlog.Record{Type: "FINALIZE_END"})
	rank0.Release()
	read("FINISHED")
	must(t, cmd.Wait())
}

func TestWrapAll(t *testing.T) {
	for _, test := range []struct {
		line string
		want []string
	}{
		{"", []string{""}},
		{"0123456789", []string{"0123456789"}},
		{"01234 6789 abc", []string{"01234 6789", "  abc"}},
		{"0123456789abcdef", []string{"0123456789", "  abcdef"}},
		{"日本語 日本語 日本語", []string{"日本語 日本語", "  日本語"}},
	} {
		if got := wrapAll([]string{test.line}, 10, 2); !slices.Equal(got, test.want) {
			t.Errorf("%q is %q, want %q", test.line, got, test.want)
		}
	}
	if got := wrapAll([]string{"a long line"}, 2, 2); len(got) != 1 { // a screen of that width shows nothing anyway
		t.Errorf("%q", got)
	}
}
