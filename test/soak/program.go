package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/session"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/test/storagetest"
)

// A job is one run of the program of a story. Its ranks are goroutines of one process,
// which a kill ends with all its threads.
type job struct {
	Root     string
	Nodes    []string // where each rank runs
	Env      []string // NAME=value
	Versions versions // before it

	Refuse []bool // of the first checkpoints that it is offered, and could read, it says that it could not: true: on all ranks
	Stops  bool   // it does nothing more if that ends the offers; else it starts from the beginning
	Ops    []op
	End    bool // with Finalize

	Kill    *kill
	Recover *recovery
	Full    *full
	Lenient bool // it continues after an error of a call
}

// op is what the program does once it has restarted.
type op struct {
	What string // "checkpoint", "output", "both", "none", "spoiled"; "delete", "drop", "current"
	Back int    // of the last three: of which version, counted back from the newest
}

// kill is where a run is killed.
type kill struct {
	At    int64 // message, counted from the phase on
	Phase int   // 0: Init and restart; n: the n-th op; behind these: Finalize
	Dead  bool  // all ranks end at once, and not each at its next message
}

// full is storage that takes no more from some moment of a run on.
type full struct {
	Phase int
	Least int // writes of so many bytes or more fail; more than the 8 with which Go's runtime wakes itself
	Errno unix.Errno
}

// recovery is how a run continues after a rank has died for good: another process takes its
// place, and the others take their sessions over.
type recovery struct {
	Phase int    // after this op
	Rank  int    // dies
	At    int64  // ... at this operation of its session in the phase; behind the last one: nobody dies
	Node  string // where the new process is
	Lost  bool   // the storage of the node is lost with it
}

// The statuses with which the process of a run ends.
const (
	statusWrong  = 3 // something is not as it was written
	statusFailed = 4 // a call has failed
	statusKilled = 9
)

// event is what the program reports, a line of JSON on its standard output. These are the
// events, each of rank 0 unless it says otherwise:
//
//	ready             Init has succeeded
//	offered V         HaveRestart offers V, and all ranks have found every byte right; nil: offers none
//	restarted V       CompleteRestart has succeeded
//	rejecting V       the program says that it cannot restart from V, on one rank or all ranks
//	rejected V        ... which it has
//	stopped           HaveRestart has said that the program has refused too much
//	begin V           before StartOutput
//	complete V        CompleteOutput has succeeded
//	failed V          one of the two has not, with the reason
//	WHAT V            before Delete, Drop or Current: "delete", "drop", "current"
//	WHAT-done V       ... which has succeeded
//	full              from now on writes fail
//	died, recovers    one rank has died for good, or none; all others take their sessions over. ready follows
//	ended             Finalize has succeeded
//	wrong, error      any rank: what is wrong; which call has failed
//	messages N        after the last call, how many messages there were
type event struct {
	What    string
	Version *Version `json:",omitempty"`
	Text    string   `json:",omitempty"`
}

func tell(what string, v *Version, text string) {
	line, err := json.Marshal(event{what, v, text})
	if err == nil {
		_, err = os.Stdout.Write(append(line, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	}
}

// errWrong is what a program has found that is not as it has to be.
var errWrong = errors.New("wrong")

// runJob runs a job, described by JSON, in this process, and returns its exit status.
func runJob(text string) int {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return 2
	}
	var phase atomic.Int64 // in which rank 0 is
	var messages, since atomic.Int64
	opt := local.Options{Timeout: 100 * time.Hour} // whoever has started it sees whether it hangs
	if k := j.Kill; k != nil && !k.Dead && k.Phase == 0 {
		opt.KillAt = k.At
	}
	opt.Watch = func(int) {
		messages.Add(1)
		if k := j.Kill; k != nil && opt.KillAt == 0 && phase.Load() >= int64(k.Phase) && since.Add(1) >= k.At {
			os.Exit(statusKilled)
		}
	}
	_, err := local.Run(len(j.Nodes), opt, func(world mpi.Comm) error {
		p := program{job: j, rank: world.Rank(), world: world, phase: &phase}
		p.Versions.Known = slices.Clone(j.Versions.Known)
		err := p.run()
		if err == nil {
			return nil
		}
		what, status := "error", statusFailed
		if errors.Is(err, errWrong) {
			what, status = "wrong", statusWrong
		}
		tell(what, nil, fmt.Sprintf("rank %d: %v", p.rank, err))
		os.Exit(status) // all ranks end, as with MPI_Abort
		return nil
	})
	if errors.Is(err, local.ErrKilled) {
		return statusKilled
	}
	tell("messages", nil, fmt.Sprint(messages.Load()))
	if err != nil {
		return statusFailed
	}
	return 0
}

// program is a rank of a job.
type program struct {
	job
	rank  int
	world mpi.Comm
	phase *atomic.Int64
	s     *session.Session
	dying bool // the op in which it may die
	step  int

	refused []string // those that it has refused on all ranks
}

// environment is what a rank on a node has.
func environment(root, node string, env []string) map[string]string {
	v := map[string]string{
		"SCR_PREFIX": filepath.Join(root, "prefix"), "SCR_USER_NAME": "user", "SCR_JOB_ID": "job", "SCR_DEBUG": "1",
		"PWD": root, "HOME": root, "SCR_NODE_NAME": node,
		"SCR_CACHE_BASE": filepath.Join(root, "node", node, "cache"), "SCR_CNTL_BASE": filepath.Join(root, "node", node, "cntl"),
	}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		v[name] = value
	}
	return v
}

func lookup(env map[string]string) func(name string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}
}

// tell reports an event once, by rank 0.
func (p *program) tell(what string, v *Version, text string) {
	if p.rank == 0 {
		tell(what, v, text)
	}
}

// begin begins a phase: its kill is counted from here, and its storage is full from here.
func (p *program) begin(phase int) error {
	if p.rank == 0 {
		if p.Full != nil && p.Full.Phase == phase {
			tell("full", nil, "")
			if err := storagetest.Refuse(p.Full.Errno, p.Full.Least); err != nil {
				return err
			}
		}
		p.phase.Store(int64(phase))
	}
	return nil
}

func (p *program) run() error {
	if err := p.begin(0); err != nil {
		return err
	}
	world := p.world
	if p.Recover != nil {
		world = p.ranks()
	}
	var err error
	p.s, err = session.Init(world, session.Options{Environ: lookup(environment(p.Root, p.Nodes[p.rank], p.Env))})
	if err != nil {
		return fmt.Errorf("scr.Init: %w", err)
	}
	p.tell("ready", nil, "")
	if err := p.restart(); err != nil {
		return err
	}
	ops := p.Ops
	if p.stopped() && p.Stops {
		ops = nil
	}
	for i, o := range ops {
		if err := p.begin(i + 1); err != nil {
			return err
		}
		if p.dying = p.Recover != nil && p.Recover.Phase == i+1; p.dying {
			p.world.Barrier() // no rank is in the call before
		}
		err := p.do(o)
		if p.dying && (err == nil || p.interrupted(err)) {
			err = p.recover(err)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", o.What, err)
		}
	}
	if !p.End {
		return nil
	}
	if err := p.begin(len(p.Ops) + 1); err != nil {
		return err
	}
	if err := p.s.Finalize(); err != nil {
		return fmt.Errorf("call of Finalize: %w", err)
	}
	p.tell("ended", nil, "")
	return nil
}

// restart reads the checkpoint that is offered.
func (p *program) restart() error {
	for {
		name, ok, err := p.s.HaveRestart()
		if p.stopped() {
			return p.stop(err)
		}
		if err != nil {
			return fmt.Errorf("HaveRestart: %w", err)
		}
		if !ok {
			p.tell("offered", nil, "")
			return nil
		}
		started, err := p.s.StartRestart()
		if err != nil {
			return fmt.Errorf("StartRestart: %w", err)
		}
		if started != name {
			return fmt.Errorf("%w: offered %q, then %q", errWrong, name, started)
		}
		v, err := p.read(name)
		if err != nil {
			return err
		}
		p.tell("offered", &v, "")
		if len(p.Refuse) > 0 {
			if err := p.refuse(v); err != nil {
				return err
			}
			continue
		}
		if err := p.s.CompleteRestart(true); err != nil {
			return fmt.Errorf("CompleteRestart: %w", err)
		}
		p.step = v.Step
		p.tell("restarted", &v, "")
		return nil
	}
}

// On which ranks the program refuses a checkpoint.
const (
	onOne = "on one rank"
	onAll = "on all ranks"
)

// refuse says that the program cannot restart from a version.
func (p *program) refuse(v Version) error {
	where := onOne
	if p.Refuse[0] || p.world.Size() == 1 {
		where = onAll
		p.refused = append(p.refused, v.Name)
	}
	p.Refuse = p.Refuse[1:]
	p.tell("rejecting", &v, where)
	if err := p.s.CompleteRestart(where == onOne && p.rank != p.world.Size()/2); err == nil {
		return fmt.Errorf("%w: CompleteRestart succeeds, and a rank has said that it cannot restart", errWrong)
	}
	p.tell("rejected", &v, where)
	return nil
}

// stopped reports whether nothing may be offered any more because of what the program has refused.
func (p *program) stopped() bool { return len(p.refused) == tooMany }

// stop compares what HaveRestart returns then.
func (p *program) stop(err error) error {
	if err == nil || !strings.Contains(err.Error(), "has refused "+strings.Join(p.refused, " and ")+" on all ranks") {
		return fmt.Errorf("%w: the program has refused %s on all ranks, and HaveRestart returns: %w", errWrong, strings.Join(p.refused, " and "), err)
	}
	p.tell("stopped", nil, "")
	return nil
}

// read finds out which version of a name it is that all ranks have, every byte of it.
func (p *program) read(name string) (Version, error) {
	var list []Version
	for _, v := range slices.Backward(p.Versions.Known) {
		if v.Name == name && v.checkpoint() {
			list = append(list, v)
		}
	}
	var first error // why the newest is not what is there
	wrong := make([]int64, len(list))
	for i, v := range list {
		if err := p.compare(v); err != nil {
			wrong[i] = 1
			if first == nil {
				first = fmt.Errorf("%v: %w", v, err)
			}
		}
	}
	p.world.Allreduce(wrong, mpi.Sum)
	if i := slices.Index(wrong, 0); i >= 0 {
		return list[i], nil
	}
	if len(list) == 0 {
		first = errors.New("there was none of that name")
	}
	if first == nil {
		select {} // another rank says what is wrong, and ends the process
	}
	return Version{}, fmt.Errorf("%w: what is offered as %s is none of its %d versions: %w", errWrong, name, len(list), first)
}

// compare compares the files that are the caller's if the ranks that have written a
// version are dealt to those that read it.
func (p *program) compare(v Version) error {
	for rank := p.rank; rank < v.Ranks; rank += p.world.Size() {
		for _, f := range contents(p.Versions.Seed, v, rank) {
			path, err := p.s.Route(filepath.Join(p.Root, "prefix", f.name))
			if err == nil {
				err = f.compare(path)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

var flagsOf = map[string]session.Flags{
	"checkpoint": session.Checkpoint, "output": session.Output, "both": session.Checkpoint | session.Output, "none": session.None, "spoiled": session.Checkpoint,
}

func (p *program) do(o op) error {
	if _, writes := flagsOf[o.What]; writes {
		return p.write(o)
	}
	call := map[string]func(string) error{"delete": p.s.Delete, "drop": p.s.Drop, "current": p.s.Current}[o.What]
	at := len(p.Versions.Known) - 1 - o.Back
	if at < 0 {
		return nil
	}
	v := p.Versions.Known[at]
	p.tell(o.What, &v, "")
	err := call(v.Name)
	if p.interrupted(err) {
		return err
	}
	if err != nil { // it is judged whether that may be
		p.tell("failed", &v, err.Error())
		return nil
	}
	p.tell(o.What+"-done", &v, "")
	return nil
}

// write writes a dataset.
func (p *program) write(o op) error {
	p.step++
	v := p.Versions.begin(p.step, flagsOf[o.What], p.world.Size())
	p.tell("begin", &v, "")
	err := p.writeAs(o, v)
	if err == nil && o.What == "spoiled" {
		return fmt.Errorf("%w: %v is complete, and a rank has said that it is not valid", errWrong, v)
	}
	if err == nil {
		p.tell("complete", &v, "")
		return nil
	}
	if p.interrupted(err) {
		return err
	}
	p.tell("failed", &v, err.Error())
	if p.Lenient || o.What == "spoiled" {
		return nil
	}
	return err
}

func (p *program) writeAs(o op, v Version) error {
	if err := p.s.StartOutput(v.Name, v.Flags); err != nil {
		return fmt.Errorf("StartOutput: %w", err)
	}
	var failed error
	for _, f := range contents(p.Versions.Seed, v, p.rank) {
		path, err := p.s.Route(filepath.Join(p.Root, "prefix", f.name))
		if err == nil {
			err = f.write(path)
		}
		if err != nil && failed == nil {
			failed = err
		}
	}
	if failed != nil && !p.Lenient {
		return failed
	}
	valid := failed == nil && !(o.What == "spoiled" && p.rank == p.Versions.Next%p.world.Size())
	if err := p.s.CompleteOutput(valid); err != nil {
		return fmt.Errorf("CompleteOutput: %w", err)
	}
	if !valid && o.What != "spoiled" {
		return fmt.Errorf("%w: CompleteOutput succeeds for %v, and a rank has said that it is not valid", errWrong, v)
	}
	return nil
}
