package life

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/prefix/dataset"
)

// job writes datasets, flushes and protects some of them, is killed, and loses nodes, at random.
type job struct {
	*rand.Rand
	room  Room
	last  int   // id of the newest dataset so far
	order []int // ids of those that are being flushed, in the order in which their flushes began
	saved bool  // the prefix directory has a checkpoint that has left the cache
	log   []string
}

func newJob(seed uint64) *job {
	s := &job{Rand: rand.New(rand.NewPCG(seed, 0))}
	s.room = Room{Places: 1 + s.IntN(3), Fetch: s.IntN(2) == 0}
	return s
}

func (s *job) chance(percent int) bool { return s.IntN(100) < percent }

func (s *job) note(format string, args ...any) { s.log = append(s.log, fmt.Sprintf(format, args...)) }

// happens applies an event. A dataset that is gone leaves the list.
func (s *job) happens(i int, e Event, f Facts) error {
	h := &s.room.Held[i]
	next, err := h.After(e, f)
	s.note("%d: %s %+v", h.ID(), e, f)
	h.State = next
	s.order = slices.DeleteFunc(s.order, func(id int) bool { return id == h.ID() })
	if next.copy == flushing {
		s.order = append(s.order, h.ID())
	}
	if next.Gone() {
		s.room.Held = slices.Delete(s.room.Held, i, i+1)
	}
	return err
}

// find returns a random dataset of which condition is true, -1 if there is none.
func (s *job) find(condition func(Held) bool) int {
	var found []int
	for i, h := range s.room.Held {
		if condition(h) {
			found = append(found, i)
		}
	}
	if len(found) == 0 {
		return -1
	}
	return found[s.IntN(len(found))]
}

// safety returns after which loss of a node the job could restart: 2 of any, 1 of some, or of any unless files are damaged, 0 of none.
// fetch is whether it may fetch.
func (s *job) safety(fetch bool) (best int) {
	if fetch && s.saved {
		return 2
	}
	for _, h := range s.room.Held {
		switch {
		case !h.Flags().Has(dataset.Checkpoint) || h.Withheld():
		case h.safe() || fetch && h.Fetchable():
			return 2
		case h.Protected():
			best = 1
		}
	}
	return best
}

// write writes the next dataset: it makes room, and completes it or not.
func (s *job) write() error {
	gone, err := s.makeRoom()
	if err != nil || !gone {
		return err
	}
	s.last++
	flags := []dataset.Flags{dataset.Checkpoint, dataset.Checkpoint, dataset.Output, dataset.Checkpoint | dataset.Output}[s.IntN(4)]
	d := dataset.New(s.last, fmt.Sprint(s.last), flags, s.last, dataset.Owner{}, time.Unix(1, 0))
	s.room.Held = slices.Insert(s.room.Held, 0, Held{Dataset: d, Here: s.room.Places > 0 && !s.chance(20)})
	switch n := s.IntN(10); {
	case n == 0:
		return s.happens(0, Left, Facts{})
	case n < 5 && !s.protecting():
		return s.happens(0, ProtectionStarted, Facts{Exposed: true, Unchecked: true})
	default:
		s.room.Own = s.room.Own || flags.Has(dataset.Checkpoint)
		return s.happens(0, Completed, Facts{Unchecked: s.chance(20)})
	}
}

func (s *job) protecting() bool {
	return slices.ContainsFunc(s.room.Held, func(h Held) bool { return h.Protecting() })
}

// makeRoom carries out the steps of Room, as package flush does, until the datasets have left or cannot. It checks what
// has to be so whenever datasets leave.
func (s *job) makeRoom() (gone bool, err error) {
	s.room.Tried, s.room.Stuck = false, false
	for range 2*len(s.room.Held) + 4 {
		s.room.Protecting = s.protecting()
		step, leaving, stay := s.room.Next()
		s.note("room: step %d, leaving %v, stay %d", step, leaving, stay)
		switch step {
		case WaitForProtection:
			err = s.endProtection()
		case WaitForFlush:
			err = s.endFlush(slices.IndexFunc(s.room.Held, func(h Held) bool { return h.ID() == s.order[0] }))
		case FlushThoseThatMust:
			s.room.Tried = true
			err = s.flush(leaving)
		case Refuse:
			return false, nil
		case Evict:
			return true, s.evict(leaving, stay)
		}
		if err != nil {
			return false, err
		}
	}
	return false, fmt.Errorf("no end")
}

// flush flushes those that leave and must be flushed, until that fails for one that must not leave otherwise.
func (s *job) flush(leaving []int) error {
	for _, i := range leaving {
		if !s.room.Held[i].MustFlush() {
			continue
		}
		if err := s.happens(i, FlushStarted, Facts{}); err != nil {
			return err
		}
		if err := s.endFlush(i); err != nil {
			return err
		}
		if s.room.Unsaved(i) {
			s.room.Stuck = true
			return nil
		}
	}
	return nil
}

func (s *job) evict(leaving []int, stay int) error {
	fetch := s.room.Fetch || s.room.Stuck // what the prefix directory has leaves before what nobody else has
	safe, somewhere, risky := s.safety(fetch), s.safety(true), s.room.Risky(leaving)
	for _, i := range leaving {
		if s.room.Unsaved(i) {
			return fmt.Errorf("dataset %d leaves, and is nowhere else", s.room.Held[i].ID())
		}
	}
	kept := 0
	for i, h := range s.room.Held {
		if h.Here && !slices.Contains(leaving, i) {
			kept++
		}
	}
	if kept+stay > s.room.Places-1 {
		return fmt.Errorf("%d and %d unused datasets stay, of %d", kept, stay, s.room.Places)
	}
	s.room.Unused = s.room.Unused[len(s.room.Unused)-stay:]
	if newest := s.room.newest(func(Held) bool { return true }); s.room.Stuck && slices.Contains(leaving, newest) && !s.room.Held[newest].Fetchable() {
		return fmt.Errorf("the newest checkpoint makes way for what cannot be flushed")
	}
	slices.Sort(leaving)
	for _, i := range slices.Backward(leaving) {
		h := s.room.Held[i]
		s.saved = s.saved || h.Fetchable() && !h.Withheld() && h.Flags().Has(dataset.Checkpoint)
		if err := s.happens(i, Evicted, Facts{}); err != nil {
			return err
		}
	}
	if s.safety(fetch) < safe && s.room.Places > 1 {
		return fmt.Errorf("no dataset is left that survives the loss of a node as well as one that has left")
	}
	if s.safety(true) < somewhere && somewhere == 2 && !risky {
		return fmt.Errorf("users are not warned of the place that is missing")
	}
	return nil
}

func (s *job) endProtection() error {
	i := s.find(func(h Held) bool { return h.Protecting() })
	if i < 0 {
		return nil
	}
	e := ProtectionFailed
	if s.chance(80) {
		e = ProtectionEnded
		s.room.Own = s.room.Own || s.room.Held[i].Flags().Has(dataset.Checkpoint)
	}
	if err := s.happens(i, e, Facts{Unchecked: s.chance(20)}); err != nil || !s.room.Held[i].FlushDue() {
		return err
	}
	return s.happens(i, FlushStarted, Facts{})
}

func (s *job) endFlush(i int) error {
	if i < 0 {
		return nil
	}
	return s.happens(i, []Event{FlushEnded, FlushFailed}[min(s.IntN(4)/3, 1)], Facts{})
}

// kill ends the run, perhaps with the loss of a node, and starts the next.
func (s *job) kill() error {
	lost := s.chance(50)
	s.note("killed, node lost: %v", lost)
	old := s.room.Held
	s.room.Held, s.room.Own, s.order = nil, false, nil
	for _, h := range old {
		if lost && (!h.Protected() || h.Exposed()) {
			continue
		}
		there := h.Fetchable() || h.copy == flushing && s.chance(50)
		h.State = State{}
		s.room.Held = append(s.room.Held, h)
		i := len(s.room.Held) - 1
		e := Restored
		if s.room.newest(func(Held) bool { return true }) != i && !h.Flags().Has(dataset.Output) {
			e = Kept
		}
		if err := s.happens(i, e, Facts{Exposed: s.chance(10)}); err != nil {
			return err
		}
		if there {
			if err := s.happens(i, FoundFlushed, Facts{}); err != nil {
				return err
			}
		}
		if s.chance(10) {
			if err := s.happens(i, NotOffered, Facts{}); err != nil {
				return err
			}
		}
	}
	s.room.Unused = nil
	for range s.IntN(3) {
		s.last++
		s.room.Unused = append(s.room.Unused, Unused{ID: s.last, Failed: s.chance(30)})
	}
	return nil
}

func (s *job) step() error {
	switch n := s.IntN(20); {
	case n < 9:
		return s.write()
	case n < 12:
		return s.endProtection()
	case n < 15:
		i := s.find(func(h Held) bool { return h.copy == nothing || h.FlushDue() && !h.Protecting() })
		switch {
		case i < 0:
			return nil
		case s.room.Held[i].Protecting() && s.chance(50):
			return s.happens(i, FlushDelayed, Facts{})
		}
		return s.happens(i, FlushStarted, Facts{})
	case n < 18:
		return s.endFlush(s.find(func(h Held) bool { return h.copy == flushing }))
	case n == 18:
		if i := s.find(Held.Flushed); i >= 0 {
			return s.happens(i, FoundReplaced, Facts{})
		}
		if i := s.find(Held.safe); i >= 0 && !s.room.Held[i].Postponed() {
			return s.happens(i, RedundancyLost, Facts{})
		}
		return nil
	default:
		return s.kill()
	}
}

// Whatever happens: making room ends; no unsaved dataset leaves; a store never has more than its
// places; and a job that could restart after the loss of a node can do so still, if the store has at least two places.
func TestRoom_RandomJobs(t *testing.T) {
	for seed := range uint64(5000) {
		s := newJob(seed)
		for range 40 {
			if err := s.step(); err != nil {
				t.Fatalf("seed %d: %v, after %q", seed, err, s.log)
			}
		}
	}
}

// Which datasets leave, and what has to be done before.
func TestRoom(t *testing.T) {
	held := func(id int, flags dataset.Flags, s State) Held {
		return Held{Dataset: dataset.New(id, fmt.Sprint(id), flags, id, dataset.Owner{}, time.Unix(1, 0)), State: s, Here: true}
	}
	const checkpoint, output = dataset.Checkpoint, dataset.Output
	var whole, there = State{stage: protected}, State{stage: protected, copy: flushed}
	for what, c := range map[string]struct {
		room    Room
		step    Step
		leaving []int
		stay    int
	}{
		"there is room":                              {Room{Places: 2, Held: []Held{held(1, checkpoint, whole)}}, Evict, nil, 0},
		"the oldest leaves":                          {Room{Places: 2, Held: []Held{held(2, checkpoint, whole), held(1, checkpoint, whole)}}, Evict, []int{1}, 0},
		"another store has it":                       {Room{Places: 1, Held: []Held{{Dataset: held(1, checkpoint, whole).Dataset, State: whole}}}, Evict, nil, 0},
		"what can be fetched stays if there is room": {Room{Places: 3, Fetch: true, Held: []Held{held(2, checkpoint, there), held(1, checkpoint, there)}}, Evict, nil, 0},
		"a newer one that cannot be used stays, and one that can be fetched leaves": {
			Room{Places: 2, Fetch: true, Unused: []Unused{{ID: 2}}, Held: []Held{held(1, checkpoint, there)}}, Evict, []int{0}, 1},
		"... unless a restart from it has failed": {
			Room{Places: 2, Fetch: true, Unused: []Unused{{ID: 2, Failed: true}}, Held: []Held{held(1, checkpoint, there)}}, Evict, nil, 0},
		"a newer one from which a restart has failed stays if there is room": {
			Room{Places: 3, Fetch: true, Unused: []Unused{{ID: 2, Failed: true}}, Held: []Held{held(1, checkpoint, there)}}, Evict, nil, 1},
		"the newest from which a restart has failed leaves before one that cannot be used now": {
			Room{Places: 2, Fetch: true, Unused: []Unused{{ID: 3, Failed: true}, {ID: 2}}, Held: []Held{held(1, checkpoint, there)}}, Evict, []int{0}, 1},
		"no checkpoint can be used": {
			Room{Places: 2, Fetch: true, Unused: []Unused{{ID: 2}, {ID: 3}}, Held: []Held{held(1, output, there)}}, Evict, []int{0}, 1},
		"an older one that cannot be used leaves": {Room{Places: 2, Unused: []Unused{{ID: 1}}, Held: []Held{held(2, checkpoint, whole)}}, Evict, nil, 0},
		"the newest is being protected": {
			Room{Places: 2, Protecting: true, Held: []Held{held(2, checkpoint, State{stage: protecting}), held(1, checkpoint, whole)}}, WaitForProtection, []int{1}, 0},
		"the newest could not be protected": {
			Room{Places: 2, Held: []Held{held(2, checkpoint, State{stage: unprotected}), held(1, checkpoint, whole)}}, Evict, []int{0}, 0},
		"the newest has lost its redundancy": {
			Room{Places: 2, Held: []Held{held(2, checkpoint, State{stage: protected, exposed: true}), held(1, checkpoint, whole)}}, Evict, []int{0}, 0},
		"... and this run has not read the other": {
			Room{Places: 2, Held: []Held{held(2, checkpoint, State{stage: protected, exposed: true}), held(1, checkpoint, State{stage: postponed})}}, Evict, []int{1}, 0},
		"the newest could not be protected, and the other misses some redundancy": {
			Room{Places: 2, Held: []Held{held(2, checkpoint, State{stage: unprotected}), held(1, checkpoint, State{stage: protected, exposed: true})}}, Evict, []int{0}, 0},
		"the newest is being protected, and the other misses some redundancy": {
			Room{Places: 2, Protecting: true, Held: []Held{held(2, checkpoint, State{stage: protecting}), held(1, checkpoint, State{stage: protected, exposed: true})}},
			WaitForProtection, []int{1}, 0},
		"the one to leave is being flushed": {
			Room{Places: 2, Held: []Held{held(2, checkpoint, whole), held(1, checkpoint, State{stage: protected, copy: flushing})}}, WaitForFlush, []int{1}, 0},
		"one that is not being flushed leaves first": {
			Room{Places: 3, Held: []Held{held(3, checkpoint, whole), held(2, checkpoint, whole), held(1, checkpoint, State{stage: protected, copy: flushing})}},
			Evict, []int{1}, 0},
		"an output is flushed before it leaves": {Room{Places: 2, Held: []Held{held(2, checkpoint, whole), held(1, output, whole)}}, FlushThoseThatMust, []int{1}, 0},
		"a withheld checkpoint, too": {
			Room{Places: 2, Held: []Held{held(2, checkpoint, whole), held(1, checkpoint, State{stage: protected, withheld: true})}}, FlushThoseThatMust, []int{1}, 0},
		"... after the protection that would let it leave without": {
			Room{Places: 3, Protecting: true, Held: []Held{held(3, checkpoint, State{stage: protecting}), held(2, checkpoint, whole), held(1, checkpoint, State{stage: protected, withheld: true})}},
			WaitForProtection, []int{2}, 0},
		"an output that cannot be flushed stays, and a checkpoint leaves": {
			Room{Places: 3, Tried: true, Stuck: true, Held: []Held{held(3, checkpoint, whole), held(2, checkpoint, whole), held(1, output, whole)}}, Evict, []int{1}, 0},
		"... but not the newest":       {Room{Places: 2, Tried: true, Stuck: true, Held: []Held{held(2, checkpoint, whole), held(1, output, whole)}}, Refuse, []int{0}, 0},
		"... unless it can be fetched": {Room{Places: 2, Tried: true, Stuck: true, Held: []Held{held(2, checkpoint, there), held(1, output, whole)}}, Evict, []int{0}, 0},
		"... nor the last that survives the loss of a node": {
			Room{Places: 2, Tried: true, Stuck: true, Held: []Held{held(2, checkpoint|output, State{stage: unprotected}), held(1, checkpoint, whole)}}, Refuse, []int{1}, 0},
		"a withheld one leaves once the run has its own": {
			Room{Places: 2, Own: true, Tried: true, Held: []Held{held(2, checkpoint, whole), held(1, checkpoint, State{stage: protected, withheld: true})}}, Evict, []int{1}, 0},
	} {
		t.Run(what, func(t *testing.T) {
			if step, leaving, stay := c.room.Next(); step != c.step || !slices.Equal(leaving, c.leaving) || stay != c.stay {
				t.Errorf("step %d, leaving %v, stay %d; want %d, %v, %d", step, leaving, stay, c.step, c.leaving, c.stay)
			}
		})
	}
}
