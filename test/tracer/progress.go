package tracer

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A run hangs if all its processes have slept, without using a processor, at so many looks
// in a row; if they have used so much of processors without a call that may change a
// watched file; or if there was no such call at so many looks. A loaded machine does not
// change the first two: a process that waits for a processor does not sleep.
const (
	mostIdle  = 90
	mostTicks = 300 * 100 // in 1/100 s
	mostLooks = 1800
)

// look is the time between two looks; a test has less of it.
var look = time.Second

// watch looks for a hang until the function that it returns is called.
func (t *trace) watch() (stop func()) {
	return watch(t.counted.Load, func() []int { return traced(t.tracer) }, func(_ string, pids []int) {
		t.hangs.Store(true)
		for _, pid := range pids { // the tracer, which wakes up by that, kills those that are new
			unix.Kill(pid, unix.SIGKILL)
		}
	})
}

// Watch looks whether processes hang that are not traced, until the function that it
// returns is called. It calls hangs with the reason, at every look.
func Watch(pids func() []int, hangs func(why string)) (stop func()) {
	none := func() int64 { return 0 }
	return watch(none, pids, func(why string, _ []int) { hangs(why) })
}

func watch(calls func() int64, list func() []int, hangs func(why string, pids []int)) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		var p progress
		tick := time.NewTicker(look)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			pids := list()
			if why := p.look(calls(), usage(pids)); why != "" {
				hangs(why, pids)
			}
		}
	}()
	return func() { close(quit); <-ended }
}

// progress is what was seen so far.
type progress struct {
	calls, ticks int64 // at the last look
	since        int64 // ticks when there was a call last
	idle, looks  int   // in a row
}

// use is what processes have used of processors, and whether one of them wants one.
type use struct {
	ticks   int64
	running bool
}

// look returns why a run is taken to hang, "" if it is not.
func (p *progress) look(calls int64, u use) string {
	if calls != p.calls {
		*p = progress{calls: calls, ticks: u.ticks, since: u.ticks}
		return ""
	}
	p.looks++
	if u.running || u.ticks != p.ticks {
		p.idle = 0
	} else {
		p.idle++
	}
	p.ticks = u.ticks
	switch {
	case p.idle >= mostIdle:
		return "it sleeps"
	case u.ticks-p.since >= mostTicks:
		return "it computes and changes nothing"
	case p.looks >= mostLooks:
		return "it changes nothing"
	}
	return ""
}

// usage sums up what processes have used.
func usage(pids []int) (u use) {
	for _, p := range pids {
		threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", p))
		for _, thread := range threads {
			state, fields, ok := stat(fmt.Sprintf("/proc/%d/task/%s/stat", p, thread.Name()))
			if !ok {
				continue
			}
			u.running = u.running || state == "R" || state == "D"
			user, _ := strconv.ParseInt(fields[11], 10, 64)
			system, _ := strconv.ParseInt(fields[12], 10, 64)
			u.ticks += user + system
		}
	}
	return u
}

// stat reads the state and the fields from the state on of a line of the kernel.
func stat(path string) (state string, fields []string, ok bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", nil, false
	}
	fields = strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 {
		return "", nil, false
	}
	return fields[0], fields, true
}

// traced are all processes that a thread traces.
func traced(tracer int) (list []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if p, err := strconv.Atoi(e.Name()); err == nil && tracerOf(p) == tracer {
			list = append(list, p)
		}
	}
	return list
}

// tracerOf returns the thread that traces a process, 0 if none does.
func tracerOf(pid int) int {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "TracerPid:"); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(value))
			return n
		}
	}
	return 0
}
