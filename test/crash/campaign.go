package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A record is a case that is done, a line of the state file.
type record struct {
	Scenario string
	At       int
	Call     string // what the kill was in place of
	Restarts int
	Fault    Fault  `json:",omitempty"`
	Text     string `json:",omitempty"`
	After    string `json:",omitempty"` // nodes that were lost after the kill
	Total    int    `json:",omitempty"` // instead of a case: so many calls a run has
}

// state is what is done.
type state struct {
	mu    sync.Mutex
	file  *os.File // nil: only in memory
	list  []record
	total map[string]int
	done  map[string]bool
}

func key(scenario string, at int) string { return fmt.Sprintf("%s:%d", scenario, at) }

// openState reads the state file, which is that of these programs: its first line is
// their checksum.
func openState(s settings) (*state, error) {
	st := &state{total: map[string]int{}, done: map[string]bool{}}
	if s.state == "" {
		return st, nil
	}
	sum, err := s.version()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(s.state), 0o777); err != nil {
		return nil, err
	}
	if st.file, err = os.OpenFile(s.state, os.O_RDWR|os.O_CREATE, 0o666); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(st.file)
	lines.Buffer(nil, 16<<20)
	if !lines.Scan() || lines.Text() != sum {
		if err := errors.Join(st.file.Truncate(0), seekEnd(st.file)); err != nil {
			return nil, err
		}
		_, err := fmt.Fprintln(st.file, sum)
		return st, err
	}
	for lines.Scan() {
		var r record
		if json.Unmarshal(lines.Bytes(), &r) == nil { // the last line may be cut
			st.enter(r)
		}
	}
	// A line that was cut ends here. Empty lines mean nothing.
	_, err = st.file.WriteString("\n")
	return st, errors.Join(lines.Err(), err)
}

func seekEnd(f *os.File) error {
	_, err := f.Seek(0, io.SeekEnd)
	return err
}

// version distinguishes programs by their bytes.
func (s settings) version() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, path := range []string{self, filepath.Join(s.tools, "scr_index"), s.steps, filepath.Join(s.tools, "libscr.so")} {
		data, err := os.ReadFile(path)
		if err != nil && path != s.steps && !strings.HasSuffix(path, ".so") {
			return "", err
		}
		sum.Write(data)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}

func (st *state) enter(r record) {
	if r.Total > 0 {
		st.total[r.Scenario] = r.Total
		return
	}
	st.done[key(r.Scenario, r.At)] = true
	st.list = append(st.list, r)
}

// add records a case.
func (st *state) add(r record) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.enter(r)
	if st.file == nil {
		return nil
	}
	line, err := json.Marshal(r)
	if err == nil {
		_, err = st.file.Write(append(line, '\n'))
	}
	return err
}

func (st *state) calls(scenario string) int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.total[scenario]
}

func (st *state) has(scenario string, at int) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.done[key(scenario, at)]
}

// passes is how often the campaign goes over all scenarios, with a part of the calls of
// each, so that one that is ended early has seen something of all.
const passes = 16

// runAll runs all cases of some scenarios, or a sample.
func runAll(s settings, chosen []*scenario) (bool, error) {
	st, err := openState(s)
	if err != nil {
		return false, err
	}
	// Who is told to end ends the cases that are under way, and shows the table.
	told, cancel := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer cancel()
	random := rand.New(rand.NewPCG(s.seed, 0))
	parts := random.Perm(passes)
	work := make(chan task)
	errs := make([]error, s.jobs)
	var wg sync.WaitGroup
	stop := make(chan struct{}) // closed when a worker cannot continue
	var once sync.Once
	for i := range s.jobs {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if errs[i] = s.worker(told, st, work); errs[i] != nil {
				once.Do(func() { close(stop) })
			}
		}()
	}
	give := func(t task) bool {
		select {
		case work <- t:
			return true
		case <-stop:
		case <-told.Done():
		}
		return false
	}
	if s.sample > 0 {
		// A few calls of each of some scenarios, since each scenario has a beginning to make.
		const each = 5
		for left, i := s.sample, 0; left > 0; i++ {
			if i%len(chosen) == 0 {
				random.Shuffle(len(chosen), func(a, b int) { chosen[a], chosen[b] = chosen[b], chosen[a] })
			}
			if !give(task{sc: chosen[i%len(chosen)], seed: random.Uint64(), some: min(each, left)}) {
				break
			}
			left -= each
		}
	} else {
	all:
		for _, part := range parts {
			random.Shuffle(len(chosen), func(a, b int) { chosen[a], chosen[b] = chosen[b], chosen[a] })
			for _, sc := range chosen {
				if !give(task{sc: sc, part: part}) {
					break all
				}
			}
		}
	}
	close(work)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return false, err
	}
	well := st.report(os.Stdout)
	if told.Err() != nil {
		return false, errors.New("ended before all cases were done")
	}
	return well, nil
}

// A task is some of the cases of a scenario: so many by a seed, or every passes-th.
type task struct {
	sc   *scenario
	part int
	some int
	seed uint64
}

// pick are the calls of a task, of all that a run has.
func (t task) pick(total int) (list []int) {
	if t.some > 0 {
		random := rand.New(rand.NewPCG(t.seed, 0))
		for range t.some {
			list = append(list, 1+random.IntN(total))
		}
		return list
	}
	every := max(t.sc.every, 1)
	for at := 1 + t.part*every; at <= total; at += passes * every {
		list = append(list, at)
	}
	return list
}

// worker does tasks at a site of its own.
func (s settings) worker(told context.Context, st *state, work <-chan task) error {
	site, err := newSite(s)
	if err != nil {
		return err
	}
	defer site.close()
	for t := range work {
		if err := site.do(told, st, t); err != nil {
			return fmt.Errorf("%s: %w", t.sc.name, err)
		}
	}
	return nil
}

// do does a task.
func (s *site) do(told context.Context, st *state, t task) error {
	total := st.calls(t.sc.name)
	left := func() (list []int) {
		for _, at := range t.pick(total) {
			if !st.has(t.sc.name, at) {
				list = append(list, at)
			}
		}
		return list
	}
	if total > 0 && len(left()) == 0 {
		return nil
	}
	if err := s.begin(t.sc); err != nil {
		return err
	}
	begin, err := s.save()
	if err != nil {
		return err
	}
	if total == 0 {
		result, err := s.strike(t.sc, 0)
		if err != nil {
			return err
		}
		if result.Status != 0 || result.Calls == 0 {
			return fmt.Errorf("without a kill: status %d, %d calls\n%s", result.Status, result.Calls, s.said.String())
		}
		total = result.Calls
		if err := st.add(record{Scenario: t.sc.name, Total: total}); err != nil {
			return err
		}
	}
	for _, at := range left() {
		if told.Err() != nil {
			return nil
		}
		if err := s.restore(begin); err != nil {
			return err
		}
		o, err := s.try(t.sc, at)
		r := record{Scenario: t.sc.name, At: at, Call: strings.ReplaceAll(o.call.String(), s.root+"/", ""), Restarts: o.restarts, After: o.after}
		var bad *fault
		if errors.As(err, &bad) {
			r.Fault, r.Text = bad.Kind, strings.ReplaceAll(bad.Text, s.root+"/", "")
			if bad.Kind != Left {
				fmt.Printf("%s: %s\n%s", key(t.sc.name, at), r.Call, r.story())
				s.keep(key(t.sc.name, at))
			}
		} else if err != nil {
			return err
		}
		if !o.killed && bad == nil {
			r.Call = "" // a run has not always as many calls
		}
		if err := st.add(r); err != nil {
			return err
		}
	}
	return nil
}

// story is what is shown of a case that has failed.
func (r record) story() string {
	lost := ""
	if r.After != "" {
		lost = ", then lost: " + r.After
	}
	text := r.Text
	if lines := slices.Collect(strings.Lines(text)); len(lines) > 40 {
		text = strings.Join(lines[:5], "") + "...\n" + strings.Join(lines[len(lines)-34:], "")
	}
	return fmt.Sprintf("  killed in place of %s%s: %s: %s\n  again: make crash CASE=%s\n", r.Call, lost, r.Fault,
		strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    "), key(r.Scenario, r.At))
}

// keep copies what a failed case has left.
func (s *site) keep(name string) {
	if s.failed == "" {
		return
	}
	at := filepath.Join(s.failed, strings.ReplaceAll(name, ":", "-"))
	err := errors.Join(os.RemoveAll(at), os.MkdirAll(filepath.Dir(at), 0o777))
	if err == nil {
		err = os.CopyFS(at, os.DirFS(s.root))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "crash: what is left is not kept:", err)
	}
}

// repeat does one case again and again.
func repeat(s settings, sc *scenario, at int) (bool, error) {
	site, err := newSite(s)
	if err != nil {
		return false, err
	}
	defer site.close()
	if err := site.begin(sc); err != nil {
		return false, err
	}
	begin, err := site.save()
	if err != nil {
		return false, err
	}
	bad := 0
	for i := range s.times {
		if err := site.restore(begin); err != nil {
			return false, err
		}
		o, err := site.try(sc, at)
		call := strings.ReplaceAll(o.call.String(), site.root+"/", "")
		var f *fault
		switch {
		case errors.As(err, &f):
			bad++
			fmt.Printf("%d: killed in place of %s, then lost: %s: %v\n", i+1, call, o.after, err)
			site.keep(key(sc.name, at))
		case err != nil:
			return false, err
		default:
			fmt.Printf("%d: killed in place of %s, then lost: %s: well\n", i+1, call, o.after)
		}
	}
	fmt.Printf("%s: %d of %d failed\n", key(sc.name, at), bad, s.times)
	return bad == 0, nil
}
