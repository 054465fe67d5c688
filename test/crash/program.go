package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/session"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// A job is a program that restarts from what it is offered, checks every byte of it, and
// writes some checkpoints more.
type job struct {
	Root  string   // of its site
	Nodes []string // where each rank runs
	Env   []string // NAME=value
	Log   string   // what has happened, see note
	Count int      // checkpoints that it writes
	Same  bool     // under the same names in every step
	Ops   []string // what it calls between restart and checkpoints: "delete ckpt.1"
	End   bool     // with Finalize
}

// The exit statuses of a job, those of test/scripts/steps.c.
const (
	statusWrong  = 3 // something is not as it was written
	statusFailed = 4 // a call has failed
)

// errWrong is what a job has found that is not as it was written.
var errWrong = errors.New("wrong")

// runJob runs a job, described by JSON, in this process.
func runJob(text string) int {
	cache.Bug = func(err error) { go panic(err) } // ends the process, since no call of goscr can recover it
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		return 2
	}
	// The tracer sees whether it hangs.
	_, err := local.Run(len(j.Nodes), local.Options{Timeout: 24 * time.Hour}, func(world mpi.Comm) error {
		p := program{job: j, rank: world.Rank()}
		err := p.run(world)
		if err != nil { // all ranks end, as with MPI_Abort
			fmt.Fprintf(os.Stderr, "program: rank %d: %v\n", p.rank, err)
			if errors.Is(err, errWrong) {
				os.Exit(statusWrong)
			}
			os.Exit(statusFailed)
		}
		return nil
	})
	if err != nil {
		return statusFailed
	}
	return 0
}

// program is a rank of a job.
type program struct {
	job
	rank int
	s    *session.Session
}

// variables are what a rank on a node has in its environment.
func variables(root, node string, env []string) map[string]string {
	v := map[string]string{
		"SCR_PREFIX": filepath.Join(root, "prefix"), "SCR_USER_NAME": "user", "SCR_JOB_ID": "job", "SCR_DEBUG": "1",
		"SCR_CACHE_SIZE": "2", "SCR_MPI_BUF_SIZE": "1k", "SCR_FILE_BUF_SIZE": "4k", "PWD": root, "HOME": root,
		"SCR_NODE_NAME":  node,
		"SCR_CACHE_BASE": filepath.Join(root, "node", node, "cache"), "SCR_CNTL_BASE": filepath.Join(root, "node", node, "cntl"),
		"SHARED": filepath.Join(root, "shared"),
	}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		v[name] = value
	}
	return v
}

// becomeRank makes a process that mpirun has started the rank's program, on its node.
func becomeRank(text string, argv []string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	for _, name := range []string{"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"} {
		if rank, err := strconv.Atoi(os.Getenv(name)); err == nil && rank < len(j.Nodes) {
			path, err := exec.LookPath(argv[0])
			if err != nil {
				return err
			}
			env := os.Environ()
			j.Env = append(j.Env, "PWD="+filepath.Join(j.Root, "prefix"))
			for name, value := range variables(j.Root, j.Nodes[rank], j.Env) {
				env = append(env, name+"="+value)
			}
			if err := os.Chdir(filepath.Join(j.Root, "prefix")); err != nil { // its names are relative
				return err
			}
			return unix.Exec(path, argv, env)
		}
	}
	return errors.New("mpirun does not tell the rank")
}

func (p *program) run(world mpi.Comm) error {
	env := variables(p.Root, p.Nodes[p.rank], p.Env)
	var err error
	p.s, err = session.Init(world, session.Options{Environ: func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}})
	if err != nil {
		return fmt.Errorf("in Init: %w", err)
	}
	step, err := p.restart()
	if err != nil {
		return err
	}
	for _, op := range p.Ops {
		if err := p.do(op); err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
	}
	for range p.Count {
		step++
		if err := p.checkpoint(step); err != nil {
			return fmt.Errorf("checkpoint %d: %w", step, err)
		}
	}
	if p.End {
		if err := p.s.Finalize(); err != nil {
			return fmt.Errorf("in Finalize: %w", err)
		}
		return p.note("ended", step)
	}
	return nil
}

// note appends a line to the log, with one write:
//
//	restarted N  a rank has read checkpoint N, and found it exact
//	begun N      before StartOutput
//	complete N   after CompleteOutput has succeeded on a rank
//	ended N      after Finalize
func (p *program) note(what string, step int) error {
	f, err := os.OpenFile(p.Log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %d\n", what, step)
	return errors.Join(err, f.Close())
}

func (p *program) restart() (int, error) {
	name, ok, err := p.s.HaveRestart()
	if err != nil || !ok {
		if err == nil {
			err = p.note("restarted", 0)
		}
		return 0, err
	}
	started, err := p.s.StartRestart()
	if err != nil {
		return 0, fmt.Errorf("in StartRestart: %w", err)
	}
	number, ok := strings.CutPrefix(name, "ckpt.")
	step, err := strconv.Atoi(number)
	if err != nil || !ok || started != name {
		return 0, fmt.Errorf("%w: offered %q, then %q", errWrong, name, started)
	}
	for _, f := range contents(step, p.rank, p.Same) {
		path, err := p.s.Route(filepath.Join(p.Root, "prefix", f.name))
		if err == nil {
			err = f.compare(path)
		}
		if err != nil {
			return 0, fmt.Errorf("%w in %s: %w", errWrong, name, err)
		}
	}
	if err := p.s.CompleteRestart(true); err != nil {
		return 0, fmt.Errorf("in CompleteRestart: %w", err)
	}
	return step, p.note("restarted", step)
}

func (p *program) do(op string) error {
	what, name, _ := strings.Cut(op, " ")
	switch what {
	case "delete":
		return p.s.Delete(name)
	case "drop":
		return p.s.Drop(name)
	case "current":
		return p.s.Current(name)
	}
	return errors.New("no such call")
}

func (p *program) checkpoint(step int) error {
	if err := p.note("begun", step); err != nil {
		return err
	}
	if err := p.s.StartOutput(stepName(step), session.Checkpoint); err != nil {
		return err
	}
	for _, f := range contents(step, p.rank, p.Same) {
		path, err := p.s.Route(filepath.Join(p.Root, "prefix", f.name))
		if err == nil {
			err = f.write(path)
		}
		if err != nil {
			return err
		}
	}
	if err := p.s.CompleteOutput(true); err != nil {
		return err
	}
	return p.note("complete", step)
}

func stepName(step int) string { return fmt.Sprintf("ckpt.%d", step) }

// file is what a program writes, below the prefix directory.
type file struct {
	name string
	data []byte
	mode os.FileMode
	time time.Time
}

// contents are the files of a rank in a step: one, several, an empty one or none.
func contents(step, rank int, same bool) (files []file) {
	random := rand.New(rand.NewPCG(uint64(step), uint64(rank)))
	dir := stepName(step)
	if same {
		dir = "restart"
	}
	add := func(name string, size int) {
		f := file{name: filepath.Join(dir, name), data: make([]byte, size),
			mode: []os.FileMode{0o600, 0o640, 0o644}[random.IntN(3)], time: time.Unix(1_000_000_000+int64(step), int64(1000+rank))}
		for i := range f.data {
			f.data[i] = byte(random.Uint32() % 4) // so that it can be compressed
		}
		files = append(files, f)
	}
	switch rank % 4 {
	case 0:
		add(fmt.Sprintf("rank_%d", rank), 5000+random.IntN(3000))
	case 1:
		add(fmt.Sprintf("more/%d", rank), 700)
		add(fmt.Sprintf("rank_%d", rank), 2000)
	case 2:
		add(fmt.Sprintf("rank_%d", rank), 0)
	default:
		if same || step%2 == 0 { // else none
			add(fmt.Sprintf("rank_%d with a space", rank), 1024)
		}
	}
	return files
}

func (f file) write(path string) error {
	if err := os.WriteFile(path, f.data, 0o600); err != nil {
		return err
	}
	return errors.Join(os.Chtimes(path, f.time, f.time), os.Chmod(path, f.mode))
}

// compare returns how a file differs from what was written.
func (f file) compare(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case !bytes.Equal(data, f.data):
		return fmt.Errorf("%s: other bytes than were written (%d, were %d)", path, len(data), len(f.data))
	case info.Mode() != f.mode:
		return fmt.Errorf("%s: mode %v, was written with %v", path, info.Mode(), f.mode)
	case !info.ModTime().Equal(f.time):
		return fmt.Errorf("%s: time %v, was written with %v", path, info.ModTime(), f.time)
	}
	return nil
}
