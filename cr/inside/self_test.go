package inside

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goscr/goscr/cr/quiet"
)

// session records the calls of this package as one rank of a job. Each may fail, by its name;
// others is what the other ranks pass to Agree.
type session struct {
	dir     string            // of the rank in each checkpoint, but for those of dirs
	dirs    map[string]string // by the checkpoint on offer
	offers  []string          // checkpoints to restart from, the one on offer first
	fails   map[string]error
	others  error
	spoiled error
	calls   []string
	warned  []string
}

func (s *session) did(call string) error {
	s.calls = append(s.calls, call)
	return s.fails[strings.Fields(call)[0]]
}

func (s *session) StartCheckpoint() error           { return s.did("StartCheckpoint") }
func (s *session) SetRestartCommand(c string) error { return s.did("SetRestartCommand " + c) }
func (s *session) Spoil(err error) error            { s.spoiled = errors.Join(s.spoiled, err); return err }

func (s *session) Directory() (string, error) {
	err := s.did("Directory")
	if len(s.offers) > 0 && s.dirs[s.offers[0]] != "" {
		return s.dirs[s.offers[0]], err
	}
	return s.dir, err
}

func (s *session) Warn(format string, args ...any) {
	s.warned = append(s.warned, fmt.Sprintf(format, args...))
}

func (s *session) CompleteCheckpoint(valid bool) error {
	err := s.did(fmt.Sprintf("CompleteCheckpoint %v", valid))
	if !valid {
		err = errors.Join(err, errors.New("not valid"))
	}
	return errors.Join(err, s.spoiled)
}

func (s *session) HaveRestart() (string, bool, error) {
	if err := s.did("HaveRestart"); err != nil || len(s.offers) == 0 {
		return "", false, err
	}
	return s.offers[0], true, nil
}

func (s *session) StartRestart() (string, error) { return s.offers[0], s.did("StartRestart") }

func (s *session) CompleteRestart(valid bool) error {
	err := s.did(fmt.Sprintf("CompleteRestart %v", valid))
	if !valid {
		err = errors.Join(err, fmt.Errorf("the program could not restart from %s", s.offers[0]))
		s.offers = s.offers[1:]
	}
	return err
}

func (s *session) Agree(err error) error { return errors.Join(err, s.others) }

func (s *session) expect(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(s.calls, want) {
		t.Errorf("calls %q, want %q", s.calls, want)
	}
	s.calls = nil
}

// working is where the process works, without symbolic links.
func working(t *testing.T) string {
	t.Helper()
	dir, err := os.Readlink("/proc/self/cwd")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// newSession begins in a directory of the test's own, to which the process returns after it.
func newSession(t *testing.T) (s *session, p *Place, home string) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home = filepath.Join(base, "home")
	s = &session{dir: filepath.Join(base, "own"), fails: map[string]error{}}
	for _, dir := range []string{home, s.dir} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(home)
	return s, new(Place), home
}

func says(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("the error is %v, want one with %q", err, text)
	}
}

// The program works in its own directory from Start to Complete, and then where it was before,
// also if that has been renamed.
func TestCheckpoint(t *testing.T) {
	s, p, home := newSession(t)
	if err := Start(s, p); err != nil {
		t.Fatal(err)
	}
	s.expect(t, "StartCheckpoint", "Directory")
	if at := working(t); at != s.dir {
		t.Errorf("it works in %s, want %s", at, s.dir)
	}
	if err := os.Rename(home, home+" renamed"); err != nil {
		t.Fatal(err)
	}
	if err := Complete(s, p, 0, "./restart 7", new(quiet.Drained)); err != nil {
		t.Error(err)
	}
	s.expect(t, "SetRestartCommand ./restart 7", "CompleteCheckpoint true")
	if at := working(t); at != home+" renamed" {
		t.Errorf("it works in %s, want %s", at, home+" renamed")
	}
}

// A rank that cannot begin, or another one, ends the checkpoint on all.
func TestCheckpoint_CannotStart(t *testing.T) {
	for _, c := range []struct {
		what string
		prep func(s *session)
		text string
		want []string
	}{
		{"start", func(s *session) { s.fails["StartCheckpoint"] = errors.New("no room") }, "no room", []string{"StartCheckpoint"}},
		{"directory", func(s *session) { s.fails["Directory"] = errors.New("no directory") }, "no directory", []string{"StartCheckpoint", "Directory", "CompleteCheckpoint false"}},
		{"enter", func(s *session) { os.Remove(s.dir) }, "no such file", []string{"StartCheckpoint", "Directory", "CompleteCheckpoint false"}},
		{"another", func(s *session) { s.others = errors.New("rank 7 is full") }, "rank 7 is full", []string{"StartCheckpoint", "Directory", "CompleteCheckpoint false"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			s, p, home := newSession(t)
			c.prep(s)
			says(t, Start(s, p), c.text)
			s.expect(t, c.want...)
			if at := working(t); at != home {
				t.Errorf("it works in %s", at)
			}
		})
	}
}

// A function that fails spoils the checkpoint, with its result as the reason.
func TestCheckpoint_Fails(t *testing.T) {
	s, p, home := newSession(t)
	if err := Start(s, p); err != nil {
		t.Fatal(err)
	}
	says(t, Complete(s, p, 9, "", new(quiet.Drained)), "the program's checkpoint function returned 9")
	s.expect(t, "StartCheckpoint", "Directory", "SetRestartCommand ", "CompleteCheckpoint true")
	if at := working(t); at != home {
		t.Errorf("it works in %s", at)
	}
	says(t, WentOn(4), "returned 4")
	if err := WentOn(0); err != nil {
		t.Error(err)
	}
}

// messagesIn puts a file with a message of a rank into a directory.
func messagesIn(t *testing.T, dir string, source int) {
	t.Helper()
	var d quiet.Drained
	d.Add(quiet.Message{Space: quiet.World, Source: source, Tag: 7, Data: []byte("in transit")})
	if err := d.Save(filepath.Join(dir, messagesFile)); err != nil {
		t.Fatal(err)
	}
}

// sources are the ranks that have sent the messages of a store.
func sources(d *quiet.Drained) (list []int) {
	for _, m := range d.All() {
		list = append(list, m.Source)
	}
	return list
}

// A restart that fails is followed by one from an older checkpoint, with that one's messages.
func TestRestart(t *testing.T) {
	s, p, home := newSession(t)
	s.offers = []string{"new", "old"}
	older := t.TempDir()
	s.dirs = map[string]string{"old": older}
	messagesIn(t, s.dir, 1)
	messagesIn(t, older, 2)
	var messages quiet.Drained
	for i, result := range []int{3, 0} {
		ok, err := StartRestart(s, p, true, &messages)
		if !ok || err != nil {
			t.Fatalf("%d: %v, %v", i, ok, err)
		}
		if at := working(t); at != []string{s.dir, older}[i] {
			t.Errorf("%d: it works in %s", i, at)
		}
		if got := sources(&messages); !slices.Equal(got, []int{1 + i}) {
			t.Errorf("%d: messages of ranks %v", i, got)
		}
		err = CompleteRestart(s, p, result, &messages)
		if at := working(t); at != home {
			t.Errorf("it works in %s, want %s", at, home)
		}
		if result == 0 && err != nil {
			t.Error(err)
		} else if result != 0 {
			says(t, err, "the program's restart function returned 3: the program could not restart from new")
		}
	}
	if got := sources(&messages); !slices.Equal(got, []int{2}) {
		t.Errorf("messages of ranks %v after the restart", got)
	}
	s.expect(t, "HaveRestart", "StartRestart", "Directory", "CompleteRestart false", "HaveRestart", "StartRestart", "Directory", "CompleteRestart true")
}

// A program that starts from the beginning since it could use no checkpoint gets no message of one.
func TestRestart_NoneCanBeUsed(t *testing.T) {
	for _, c := range []struct {
		what   string
		result int
		fails  error // CompleteRestart, because of another rank
	}{{"own", 3, nil}, {"another", 0, errors.New("rank 7 could not")}} {
		t.Run(c.what, func(t *testing.T) {
			s, p, _ := newSession(t)
			s.offers = []string{"a"}
			messagesIn(t, s.dir, 1)
			var messages quiet.Drained
			if ok, err := StartRestart(s, p, true, &messages); !ok || err != nil || messages.Len() != 1 {
				t.Fatal(ok, err, messages.Len())
			}
			s.fails["CompleteRestart"] = c.fails
			if CompleteRestart(s, p, c.result, &messages) == nil {
				t.Error("no error")
			}
			s.offers = nil
			if ok, err := StartRestart(s, p, true, &messages); ok || err != nil {
				t.Error(ok, err)
			}
			if messages.Len() != 0 {
				t.Errorf("it has %d messages of the checkpoint that was not used", messages.Len())
			}
		})
	}
}

func TestRestart_CannotStart(t *testing.T) {
	s, p, home := newSession(t)
	if ok, err := StartRestart(s, p, true, new(quiet.Drained)); ok || err != nil {
		t.Errorf("without a checkpoint: %v, %v", ok, err)
	}
	s.offers = []string{"a"}
	_, err := StartRestart(s, p, false, new(quiet.Drained))
	says(t, err, "no function that restores it")
	s.expect(t, "HaveRestart", "HaveRestart") // the checkpoint stays
	if at := working(t); at != home {
		t.Errorf("it works in %s", at)
	}
}

// A checkpoint that a rank cannot begin to use is followed by an older one; after the oldest, the run
// starts from the beginning.
func TestRestart_OlderOne(t *testing.T) {
	s, p, home := newSession(t)
	var messages quiet.Drained
	damaged, good := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(damaged, messagesFile), []byte("no messages"), 0o600); err != nil {
		t.Fatal(err)
	}
	messagesIn(t, good, 4)
	s.offers = []string{"gone", "damaged", "good"}
	s.dirs = map[string]string{"gone": filepath.Join(home, "gone"), "damaged": damaged, "good": good}
	if ok, err := StartRestart(s, p, true, &messages); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if at := working(t); at != good || !slices.Equal(sources(&messages), []int{4}) || s.offers[0] != "good" {
		t.Errorf("it works in %s, with messages of %v, from %v", at, sources(&messages), s.offers)
	}
	if len(s.warned) != 2 || !strings.Contains(s.warned[0], "from gone: ") || !strings.Contains(s.warned[1], messagesFile) {
		t.Errorf("warnings %q", s.warned)
	}
	s.expect(t, "HaveRestart", "StartRestart", "Directory", "CompleteRestart false",
		"HaveRestart", "StartRestart", "Directory", "CompleteRestart false", "HaveRestart", "StartRestart", "Directory")
	if err := CompleteRestart(s, p, 0, &messages); err != nil {
		t.Error(err)
	}

	s.others = errors.New("rank 7 has no directory") // with no error of its own: nothing to say
	s.calls, s.warned, s.offers = nil, nil, []string{"good"}
	ok, err := StartRestart(&startsThenFails{session: s}, p, true, &messages)
	if ok || err != nil || messages.Len() != 0 || len(s.warned) != 0 || working(t) != home {
		t.Error(ok, err, messages.Len(), s.warned, working(t))
	}
}

// startsThenFails is a session in which the other ranks have the function, and then an error.
type startsThenFails struct {
	*session
	agreed int
}

func (s *startsThenFails) Agree(err error) error {
	if s.agreed++; s.agreed == 1 {
		return err
	}
	return s.session.Agree(err)
}
