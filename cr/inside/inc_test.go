package inside

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// program has callbacks as a program registers them, and calls them as the C library does.
type program struct {
	Callbacks
	functions map[Function]func(Event, State) int
	calls     []string
	errors    []string
}

func newProgram() *program { return &program{functions: map[Function]func(Event, State) int{}} }

// register registers a function that records its calls and calls the one before it.
func (p *program) register(t *testing.T, e Event, name string, result int) {
	t.Helper()
	f := Function(len(p.functions) + 1)
	previous, err := p.Register(e, f)
	if err != nil {
		t.Fatal(err)
	}
	p.functions[f] = func(e Event, s State) int {
		p.calls = append(p.calls, fmt.Sprintf("%s %v %v", name, e, s))
		if previous != 0 {
			if code := p.functions[previous](e, s); code != 0 {
				return code
			}
		}
		return result
	}
}

// notify calls the functions of a state.
func (p *program) notify(s State) (begun bool) {
	if !p.Begin(s) {
		return false
	}
	for e, f, ok := p.Next(s, 0); ok; e, f, ok = p.Next(s, e+1) {
		if err := p.Returned(e, s, p.functions[f](e, s)); err != nil {
			p.errors = append(p.errors, err.Error())
		}
	}
	return true
}

func (p *program) expect(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(p.calls, want) {
		t.Errorf("called were\n%s\nand not\n%s", strings.Join(p.calls, "\n"), strings.Join(want, "\n"))
	}
	p.calls = nil
}

func registerAll(t *testing.T, p *program) {
	for e := range events {
		p.register(t, e, "f", 0)
	}
}

// Each state comes with its two events, in their order.
func TestCallbacks_Order(t *testing.T) {
	p := newProgram()
	registerAll(t, p)
	p.notify(Prepare)
	p.expect(t, "f PRE_CRS_PRE_MPI PREPARE", "f PRE_CRS_POST_MPI PREPARE")
	p.notify(Continue)
	p.expect(t, "f POST_CRS_PRE_MPI CONTINUE", "f POST_CRS_POST_MPI CONTINUE")
	p.notify(Restart)
	p.expect(t, "f POST_CRS_PRE_MPI RESTART", "f POST_CRS_POST_MPI RESTART")
}

// The function that was registered last is called, and gets the one before it.
func TestCallbacks_Stack(t *testing.T) {
	p := newProgram()
	for _, name := range []string{"first", "second", "third"} {
		p.register(t, PreCRSPostMPI, name, 0)
	}
	p.notify(Prepare)
	p.expect(t, "third PRE_CRS_POST_MPI PREPARE", "second PRE_CRS_POST_MPI PREPARE", "first PRE_CRS_POST_MPI PREPARE")
	p.notify(Error)
	// A library that goes registers what it has got.
	if top, err := p.Register(PreCRSPostMPI, 2); top != 3 || err != nil {
		t.Errorf("the function before is %d, %v", top, err)
	}
	p.notify(Prepare)
	p.expect(t, "second PRE_CRS_POST_MPI PREPARE", "first PRE_CRS_POST_MPI PREPARE")
}

// A function that refuses is the last that is called, and all hear that there is an error.
func TestCallbacks_Refused(t *testing.T) {
	p := newProgram()
	p.register(t, PreCRSPreMPI, "refuses", 3)
	p.register(t, PreCRSPostMPI, "never", 0)
	p.register(t, PostCRSPreMPI, "hears", 0)
	p.notify(Prepare)
	p.expect(t, "refuses PRE_CRS_PRE_MPI PREPARE")
	if err := p.Refused(); err == nil || err.Error() != "the INC callback of PRE_CRS_PRE_MPI returned 3 in state PREPARE" {
		t.Errorf("refused: %v", err)
	}
	p.notify(Error)
	p.expect(t, "hears POST_CRS_PRE_MPI ERROR")
	if err := p.Refused(); err != nil {
		t.Errorf("still refused: %v", err)
	}
	p.functions[1] = func(Event, State) int { return 0 }
	p.notify(Prepare)
	p.expect(t, "never PRE_CRS_POST_MPI PREPARE")
}

// After a checkpoint an error changes nothing: the others are called, and it is reported.
func TestCallbacks_ErrorAfterwards(t *testing.T) {
	p := newProgram()
	p.register(t, PostCRSPreMPI, "fails", 7)
	p.register(t, PostCRSPostMPI, "next", 0)
	p.notify(Prepare)
	p.notify(Continue)
	p.expect(t, "fails POST_CRS_PRE_MPI CONTINUE", "next POST_CRS_POST_MPI CONTINUE")
	if want := []string{"the INC callback of POST_CRS_PRE_MPI returned 7 in state CONTINUE"}; !slices.Equal(p.errors, want) {
		t.Errorf("errors %q", p.errors)
	}
}

// A checkpoint has one preparation and one outcome, however often somebody asks.
func TestCallbacks_Once(t *testing.T) {
	p := newProgram()
	if p.notify(Prepare) {
		t.Error("functions are prepared, and there is none")
	}
	registerAll(t, p)
	for _, s := range []State{Continue, Error} {
		if p.notify(s) {
			t.Errorf("%v without a preparation", s)
		}
	}
	if !p.notify(Prepare) || p.notify(Prepare) {
		t.Error("the second preparation is not left out")
	}
	if !p.notify(Continue) || p.notify(Error) {
		t.Error("the second outcome is not left out")
	}
	p.expect(t, "f PRE_CRS_PRE_MPI PREPARE", "f PRE_CRS_POST_MPI PREPARE", "f POST_CRS_PRE_MPI CONTINUE", "f POST_CRS_POST_MPI CONTINUE")
}

func TestCallbacks_WrongEvent(t *testing.T) {
	var c Callbacks
	for _, e := range []Event{-1, events} {
		if _, err := c.Register(e, 1); err == nil {
			t.Errorf("%v is registered", e)
		}
	}
	if c.Begin(Prepare) {
		t.Error("something is registered")
	}
	if c.Begin(State(9)) {
		t.Error("a state that does not exist begins")
	}
}
