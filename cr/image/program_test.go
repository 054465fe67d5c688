package image

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// tools has the programs of testdata, worker and image.
var tools = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "goscr-image-test.")
	for name, flags := range map[string]string{"worker": "-static -no-pie", "image": "-Wall"} {
		argv := append(strings.Fields(flags), "-O1", "-o", filepath.Join(dir, name), filepath.Join("testdata", name+".c"))
		if out, wrong := exec.Command("gcc", argv...).CombinedOutput(); wrong != nil {
			err = errors.Join(err, fmt.Errorf("%w: %s", wrong, out))
		}
	}
	return dir, err
})

func TestMain(m *testing.M) {
	status := m.Run()
	if dir, _ := tools(); dir != "" {
		os.RemoveAll(dir)
	}
	os.Exit(status)
}

// place is where a test has a worker of some steps, which waits halfway for gate.
type place struct {
	*testing.T
	tools, dir, gate string
	output           func() string // what has been printed within the last captured
	late             bool          // programs come to their end when the ranks agree, not before
}

const steps = "100"

func begin(t *testing.T) *place {
	if runtime.GOARCH != "amd64" {
		t.Skip("testdata/image.c is for x86-64")
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip(err)
	}
	dir, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread() // the programs end with it
	p := &place{T: t, tools: dir, dir: t.TempDir()}
	p.gate = filepath.Join(p.dir, "gate")
	return p
}

// program returns a worker, which is not started. dump is "dump" or "end", or a command.
func (p *place) program(dump string, status ...string) *Program {
	p.Helper()
	image := filepath.Join(p.tools, "image")
	if !strings.Contains(dump, "%") {
		dump = image + " " + dump + " %p %d"
	}
	c, err := New(dump, image+" restore %d %i", time.Minute)
	p.must(err)
	program := NewProgram(append([]string{image, "run", filepath.Join(p.tools, "worker"), steps, p.gate}, status...), c, p.dir)
	p.Cleanup(program.Kill)
	return program
}

func (p *place) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// captured runs f with standard output, which programs inherit, in a file, and returns a function that
// returns what is in it.
func (p *place) captured(f func()) func() string {
	p.Helper()
	path := filepath.Join(p.TempDir(), "output")
	file, err := os.Create(path)
	p.must(err)
	defer file.Close()
	saved, err := unix.Dup(1)
	p.must(err)
	unix.CloseOnExec(saved)
	p.output = func() string {
		text, err := os.ReadFile(path)
		p.must(err)
		return string(text)
	}
	p.must(unix.Dup2(int(file.Fd()), 1))
	f()
	p.must(unix.Dup2(saved, 1))
	unix.Close(saved)
	return p.output
}

func (p *place) open() { p.must(os.WriteFile(p.gate, nil, 0o600)) }

// snapshot returns an empty directory.
func (p *place) snapshot() string { return p.TempDir() }

var lines = regexp.MustCompile(`(?m)^(begins|half|result) ([0-9a-f]+)$`)

func results(output string) (list []string) {
	for _, m := range lines.FindAllStringSubmatch(output, -1) {
		if m[1] == "begins" {
			m[2] = ""
		}
		list = append(list, strings.TrimSpace(m[1]+" "+m[2]))
	}
	return list
}

// comes waits until a program has ended, and returns its lines.
func (p *place) comes(program *Program, output func() string) []string {
	p.Helper()
	for !program.Ended() {
		time.Sleep(time.Millisecond)
	}
	return results(output())
}

func (p *place) halfway(output func() string) {
	for !strings.Contains(output(), "half ") {
		time.Sleep(time.Millisecond)
	}
}

func (p *place) same(got, want []string) {
	p.Helper()
	if !slices.Equal(got, want) {
		p.Errorf("%q, want %q", got, want)
	}
}

// whole is what a worker prints that nobody has disturbed.
func (p *place) whole() []string {
	p.Helper()
	p.open()
	program := p.program("dump")
	list := p.comes(program, p.captured(func() { p.must(program.Start()) }))
	if len(list) != 3 || program.Failure() != nil {
		p.Fatalf("%q, %v", list, program.Failure())
	}
	p.must(os.Remove(p.gate))
	return list
}

func TestProgram_Restored(t *testing.T) {
	p := begin(t)
	want := p.whole()
	first := p.program("dump")
	output := p.captured(func() { p.must(first.Start()) })
	p.halfway(output)
	dir := p.snapshot()
	p.must(first.Save(dir))
	p.must(first.GoOn(dir))
	p.open()
	p.same(p.comes(first, output), want) // it has gone on
	p.must(os.Remove(p.gate))

	// Twice from the same image, and once from an image of a restored process.
	image, err := os.ReadFile(filepath.Join(dir, "image"))
	p.must(err)
	for range 2 {
		again := p.program("dump")
		p.captured(func() { p.must(again.Restore(dir)) })
		if again.Ended() {
			t.Fatal("it has ended before the gate was open")
		}
		next := p.snapshot()
		p.must(again.Save(next))
		again.Kill()
		dir = next
		third := p.program("dump")
		output = p.captured(func() { p.must(third.Restore(next)) })
		p.open()
		p.same(p.comes(third, output), want[2:])
		if err := third.Failure(); err != nil {
			t.Error(err)
		}
		p.must(os.Remove(p.gate))
	}

	// A wrong byte is a wrong result: the test above can fail.
	at := bytes.LastIndex(image, bytes.Repeat([]byte{0}, 4096)) // in memory that is not used, at least once
	wrong := 0
	for _, i := range []int{at, len(image) / 3, len(image) / 2, len(image) * 2 / 3, len(image) * 3 / 4} {
		damaged := slices.Clone(image)
		damaged[i] ^= 0x40
		bad := p.snapshot()
		p.must(os.WriteFile(filepath.Join(bad, "image"), damaged, 0o600))
		program := p.program("dump")
		output = p.captured(func() { p.must(program.Restore(bad)) })
		p.open()
		if got := p.comes(program, output); !slices.Equal(got, want[2:]) {
			wrong++
		}
		p.must(os.Remove(p.gate))
	}
	if wrong == 0 {
		t.Error("no wrong byte changes the result")
	}
}

// A command that ends the program: it is started again from the image.
func TestProgram_DumpEndsIt(t *testing.T) {
	p := begin(t)
	want := p.whole()
	program := p.program("end")
	output := p.captured(func() { p.must(program.Start()) })
	p.halfway(output)
	before := results(output())
	for range 2 {
		dir := p.snapshot()
		pid := program.pid
		p.must(program.Save(dir))
		output = p.captured(func() { p.must(program.GoOn(dir)) })
		if program.pid == pid || program.Ended() {
			t.Errorf("process %d, it was %d", program.pid, pid)
		}
	}
	p.open()
	p.same(append(before, p.comes(program, output)...), want)
}

func TestProgram_Failures(t *testing.T) {
	p := begin(t)
	started := func(dump string) *Program {
		program := p.program(dump)
		output := p.captured(func() { p.must(program.Start()) })
		p.halfway(output)
		return program
	}
	expect := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	expect(started("exit 3 # %p").Save(p.snapshot()), "ended with status 3")
	expect(started("kill -9 $$ # %p").Save(p.snapshot()), "ended with status 137")
	expect(started("true # %p").Save(p.snapshot()), "there is no file in")
	hangs := started("touch here; (sleep 1000; touch late) # %p")
	hangs.commands.Limit = 50 * time.Millisecond
	expect(hangs.Save(p.snapshot()), "has not ended within 50ms, and was killed")
	if hangs.Ended() {
		t.Error("the program has ended with the command")
	}
	program := p.program("dump")
	expect(program.Restore(p.snapshot()), "ended with status 1 before it had restored the program")
	program.commands.Restore, program.commands.Limit = "sleep 1000 # %i", 50*time.Millisecond
	expect(program.Restore(p.snapshot()), "has not restored the program within 50ms, and was killed")
	nothing := NewProgram([]string{"/nonexistent/program"}, program.commands, p.dir)
	expect(nothing.Start(), "no such file")
}

func TestProgram_Ended(t *testing.T) {
	p := begin(t)
	p.open()
	failed := p.program("dump", "5")
	list := p.comes(failed, p.captured(func() { p.must(failed.Start()) }))
	var f *Failed
	if err := failed.Failure(); !errors.As(err, &f) || f.Status != 5 || len(list) != 3 {
		t.Error(err, list)
	}
	if err := failed.Save(p.snapshot()); !errors.As(err, &f) {
		t.Errorf("a program that has failed is saved: %v", err)
	}

	// One that has ended before a checkpoint is part of it, and has ended after the restart.
	done := p.program("dump")
	p.comes(done, p.captured(func() { p.must(done.Start()) }))
	dir := p.snapshot()
	p.must(done.Save(dir))
	p.must(done.GoOn(dir))
	again := p.program("dump")
	output := p.captured(func() { p.must(again.Restore(dir)) })
	if !again.Ended() || again.Failure() != nil || output() != "" {
		t.Error(again.Ended(), again.Failure(), output())
	}

	p.must(os.Remove(p.gate))
	stopped := p.program("dump")
	p.halfway(p.captured(func() { p.must(stopped.Start()) }))
	stopped.End(time.Minute)
	if alive(stopped.pid) || stopped.Failure() != nil {
		t.Error("it runs, or has failed: ", stopped.Failure())
	}
	stubborn := NewProgram([]string{"/bin/sh", "-c", "trap '' TERM; touch ready; while :; do sleep 0.01; done"}, stopped.commands, p.dir)
	t.Chdir(p.dir)
	p.must(stubborn.Start())
	for _, err := os.Stat("ready"); err != nil; _, err = os.Stat("ready") {
		time.Sleep(time.Millisecond)
	}
	stubborn.End(10 * time.Millisecond)
	if alive(stubborn.pid) {
		t.Error("it has survived")
	}
}

// detached returns a program that is restored from nothing by a shell, in a session of its own.
func (p *place) detached(script string) *Program {
	p.Helper()
	program := p.program("dump")
	program.commands.Restore = "setsid sh -c '" + script + "; echo $$ >%i; while :; do sleep 0.01; done' & wait # %d"
	p.must(program.Restore(p.snapshot()))
	return program
}

// A restored program that is no process of the command's group ends by SIGTERM, too, or is killed.
func TestProgram_RestoredEnds(t *testing.T) {
	p := begin(t)
	graceful := filepath.Join(p.dir, "graceful")
	takesTime := p.detached("trap \"sleep 0.1; touch " + graceful + "; exit\" TERM")
	takesTime.End(time.Minute)
	if _, err := os.Stat(graceful); err != nil || alive(takesTime.pid) || takesTime.Failure() != nil {
		t.Error(err, alive(takesTime.pid), takesTime.Failure())
	}
	stubborn := p.detached("trap \"\" TERM")
	stubborn.End(10 * time.Millisecond)
	if alive(stubborn.pid) {
		t.Error("it has survived End")
	}
	killed := p.detached("trap \"\" TERM")
	killed.Kill()
	if alive(killed.pid) {
		t.Error("it has survived Kill")
	}
	aborted := p.detached("trap \"\" TERM")
	aborted.Abort()
	within(0, func() bool { return !alive(aborted.pid) && aborted.Ended() })
}

// The processes that a program has started end with it, after their own grace.
func TestProgram_GroupEnds(t *testing.T) {
	p := begin(t)
	started := func(name, script string) (program *Program, pid int) {
		file := filepath.Join(p.dir, name)
		program = NewProgram([]string{"/bin/sh", "-c", "sh -c '" + script + "; echo $$ >" + file + ".new; mv " + file + ".new " + file +
			"; while :; do sleep 0.01; done' & wait"}, Commands{Limit: time.Minute}, p.dir)
		p.must(program.Start())
		p.Cleanup(program.Abort)
		within(0, func() bool {
			text, err := os.ReadFile(file)
			pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
			return err == nil
		})
		return program, pid
	}
	graceful := filepath.Join(p.dir, "graceful")
	program, pid := started("first", "trap \"sleep 0.1; touch "+graceful+"; exit\" TERM")
	program.End(time.Minute)
	if _, err := os.Stat(graceful); err != nil || alive(pid) {
		t.Error(err, alive(pid))
	}
	program, pid = started("second", "trap \"\" TERM")
	program.End(10 * time.Millisecond)
	within(0, func() bool { return !alive(pid) })
	program, pid = started("third", "trap \"\" TERM")
	program.Abort()
	within(0, func() bool { return !alive(pid) && program.Ended() })
}

// A program gets no descriptor but 0, 1 and 2, also of those that are open in this process for
// processes that it executes.
func TestProgram_Descriptors(t *testing.T) {
	p := begin(t)
	fd, err := syscall.Open(p.dir, syscall.O_RDONLY, 0)
	p.must(err)
	defer syscall.Close(fd)
	program := NewProgram([]string{"/bin/ls", "/proc/self/fd"}, Commands{}, p.dir)
	output := p.captured(func() { p.must(program.Start()) })
	for !program.Ended() {
		time.Sleep(time.Millisecond)
	}
	if got := strings.Fields(output()); !slices.Equal(got, []string{"0", "1", "2", "3"}) { // 3: ls itself
		t.Errorf("%q", got)
	}
}
