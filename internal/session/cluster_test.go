package session

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/lifecycle/mover"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/test/storagetest"
)

// cluster is a machine with nodes that have storage of their own and a prefix
// directory, all below one directory. A node is there once a rank runs on it.
type cluster struct {
	t      testing.TB
	root   string
	env    map[string]string
	opt    local.Options
	base   string // of the cache on a node
	mode   mode
	dies   bool   // jobs end although a dataset is not protected yet
	faults faults // of each session

	mu  sync.Mutex
	log bytes.Buffer // of the last job

	serving sync.WaitGroup // those that copy for a node
	pause   func()         // in place of SIGSTOP
	booted  time.Time      // when all nodes have started; zero: when this machine has
	gate    func() bool    // see Options
	over    atomic.Bool    // the job of the test has ended
}

// meet waits for all ranks of c.
func meet(c mpi.Comm) error {
	c.Barrier()
	return nil
}

// newCluster makes a cluster for jobs with these parameters, NAME=value each.
func newCluster(t testing.TB, env ...string) *cluster {
	t.Helper()
	root, err := os.MkdirTemp(storagetest.Base(), "goscr-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	return clusterAt(t, root, env...)
}

// clusterAt makes a cluster in a directory.
func clusterAt(t testing.TB, root string, env ...string) *cluster {
	c := &cluster{t: t, root: root, base: "cache", opt: local.Options{}, mode: modeOf(t), env: map[string]string{
		"SCR_PREFIX": filepath.Join(root, "prefix"), "SCR_USER_NAME": "user", "SCR_JOB_ID": "job",
		"SCR_CACHE_SIZE": "2", "SCR_FLUSH": "0", "SCR_DEBUG": "1", "SCR_MPI_BUF_SIZE": "1k", "SCR_FILE_BUF_SIZE": "1k",
		"PWD": root,
	}}
	c.set(c.mode.env()...)
	c.set(env...)
	return c
}

// mode is how datasets are protected: while the program waits, or while it continues, and then by
// what carrier. Tests that lose, kill, damage and move something have to pass in all of them.
type mode string

const (
	waiting mode = "sync"
	sockets mode = "sockets"
	overMPI mode = "mpi"
)

// inModes are the tests that have a mode.
var inModes = regexp.MustCompile(`^Test(Killed|Session|Groups|Move|Exposed|Async|Handover|Keep|World|Stores|Storage|Power|Panic|Names|Input|Full)_?`)

// modeOf returns the mode of a test: that of the environment variable GOSCR_TEST_ENCODE, else one that
// its name decides, so that a run of all tests has all modes, and a test fails again if it has failed.
func modeOf(t testing.TB) mode {
	if !inModes.MatchString(t.Name()) {
		return waiting
	}
	if m := mode(os.Getenv("GOSCR_TEST_ENCODE")); m != "" {
		return m
	}
	sum := fnv.New32a()
	sum.Write([]byte(t.Name()))
	return []mode{waiting, waiting, waiting, waiting, sockets, overMPI}[sum.Sum32()%6]
}

func (m mode) env() []string {
	if m == waiting {
		return nil
	}
	return []string{"SCR_ENCODE_ASYNC=1", "SCR_ENCODE_CARRIER=" + string(m)}
}

// inMode makes further jobs protect in a mode whatever the test's is.
func (c *cluster) inMode(m mode) {
	c.mode = m
	delete(c.env, "SCR_ENCODE_ASYNC")
	c.set(m.env()...)
}

// set sets variables of the environment: NAME=value, or NODE:NAME=value for the ranks of a node.
func (c *cluster) set(env ...string) {
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		c.env[name] = value
	}
}

// configure writes the user's configuration file.
func (c *cluster) configure(lines ...string) {
	c.t.Helper()
	if err := errors.Join(os.MkdirAll(c.prefix(""), 0o700), os.WriteFile(c.prefix(".scrconf"), []byte(strings.Join(lines, "\n")+"\n"), 0o600)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Write(p)
}

func (c *cluster) said() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.String()
}

// says fails the test unless the last job said text.
func (c *cluster) says(text string) {
	c.t.Helper()
	if !strings.Contains(c.said(), text) {
		c.t.Errorf("the job did not say %q but\n%s", text, c.said())
	}
}

func (c *cluster) node(name string) string   { return filepath.Join(c.root, "node", name) }
func (c *cluster) prefix(name string) string { return filepath.Join(c.root, "prefix", name) }
func (c *cluster) lose(names ...string)      { c.remove(c.t, names...) }
func (c *cluster) remove(t testing.TB, names ...string) {
	for _, name := range names {
		if err := os.RemoveAll(c.node(name)); err != nil {
			left, _ := exec.Command("find", c.node(name), "-ls").CombinedOutput() // what somebody has just made there
			t.Fatalf("%v\n%s", err, left)
		}
	}
}

// cached is the path of a file in the cache of a node.
func (c *cluster) cached(node string, id int, file string) string {
	return filepath.Join(c.node(node), "cache/user/scr.job", fmt.Sprintf("scr.dataset.%d", id), file)
}

// in returns the numbers of the datasets that a node has in a store.
func (c *cluster) in(node, store string) string {
	c.t.Helper()
	dir := filepath.Join(c.node(node), store)
	if store == "shared" {
		dir = filepath.Join(c.root, store)
	}
	found, err := filepath.Glob(filepath.Join(dir, "user/scr.job/scr.dataset.*"))
	if err != nil {
		c.t.Fatal(err)
	}
	var ids []string
	for _, path := range found {
		ids = append(ids, strings.TrimPrefix(filepath.Ext(path), "."))
	}
	return strings.Join(ids, " ")
}

// options are those of a rank on a node.
func (c *cluster) options(node string) Options {
	return Options{Log: c, launch: c.serve, pause: c.pause, booted: c.booted, faults: c.faults, Gate: c.gate, Environ: func(name string) (string, bool) {
		if value, ok := c.env[node+":"+name]; ok {
			return value, true
		}
		switch name {
		case "SCR_NODE_NAME":
			return node, true
		case "SCR_CACHE_BASE":
			return filepath.Join(c.node(node), c.base), true
		case "SCR_CNTL_BASE":
			return filepath.Join(c.node(node), "cntl"), true
		case "SSD": // other storage of a node, and what all nodes share
			return filepath.Join(c.node(node), "ssd"), true
		case "SHARED":
			return filepath.Join(c.root, "shared"), true
		}
		value, ok := c.env[name]
		return value, ok
	}}
}

// serve is scr_transfer of a node, in this process.
func (c *cluster) serve(control string) error {
	c.serving.Add(1)
	go func() {
		defer c.serving.Done()
		server := mover.Server{Control: control, Warn: func(err error) { fmt.Fprintln(c, "scr_transfer:", err) }}
		if err := server.Run(); err != nil {
			fmt.Fprintln(c, "scr_transfer:", err)
		}
	}()
	return nil
}

// try runs a job, rank r on node nodes[r], that ends without Finalize if f
// does not call it, as if it had been killed then.
func (c *cluster) try(nodes []string, f func(s *Session, rank int) error) error {
	_, err := c.count(nodes, f)
	return err
}

// count is try that also returns what each rank sent.
func (c *cluster) count(nodes []string, f func(s *Session, rank int) error) ([]local.Stats, error) {
	c.mu.Lock()
	c.log.Reset()
	c.mu.Unlock()
	return local.Run(len(nodes), c.opt, func(world mpi.Comm) error {
		s, err := Init(world, c.options(nodes[world.Rank()]))
		if err != nil {
			return fmt.Errorf("Init: %w", err)
		}
		// With processes that are killed nothing would be copied any more; here it would
		// be in the way of the next job.
		defer s.flusher.Background.Drain()
		defer s.cache.Close() // the descriptors that a process would give back
		defer s.events.Close()
		defer s.advisor.Abandon()
		if err = f(s, world.Rank()); err == nil && !c.dies && s.state != finished && s.job.over == nil {
			// The job is over when what it has begun is protected, as tests expect that do not ask.
			err = s.call("test", s.flusher.WaitForProtection)
		}
		return err
	})
}

// job is try for jobs that have to succeed.
func (c *cluster) job(nodes []string, f func(s *Session, rank int) error) {
	c.t.Helper()
	if err := c.try(nodes, f); err != nil {
		c.t.Fatalf("%v\n%s", err, c.said())
	}
}

// on places ranks on nodes, per to a node.
func on(per int, nodes ...string) []string {
	var list []string
	for _, n := range nodes {
		for range per {
			list = append(list, n)
		}
	}
	return list
}

var four = on(1, "a", "b", "c", "d")

// file is what a program writes.
type file struct {
	name string // below the prefix directory
	data []byte
	mode os.FileMode
	time time.Time
}

// regular is the first step whose files can be compressed.
const regular = 50

// contents are the files of a rank in a step: some ranks have none, some have
// empty ones, some have several of one base name.
func contents(step, rank int) []file {
	random := rand.New(rand.NewPCG(uint64(step), uint64(rank)))
	var files []file
	add := func(name string, size int) {
		f := file{name: name, data: make([]byte, size), mode: []os.FileMode{0o600, 0o640, 0o755, 0o444}[random.IntN(4)],
			time: time.Unix(1_000_000_000+int64(step), int64(1000+rank))}
		for i := range f.data {
			f.data[i] = byte(random.Uint32())
			if step >= regular {
				f.data[i] = byte(i / 50)
			}
		}
		files = append(files, f)
	}
	dir := fmt.Sprintf("ckpt.%d", step)
	switch rank % 5 {
	case 0:
		add(fmt.Sprintf("%s/rank_%d", dir, rank), 5000+random.IntN(3000))
		add(fmt.Sprintf("%s/empty_%d", dir, rank), 0)
	case 1:
		add(fmt.Sprintf("%s/x/%d/state", dir, rank), 100)
		add(fmt.Sprintf("%s/y/%d/state", dir, rank), 3333)
	case 2:
		add(fmt.Sprintf("%s/rank_%d", dir, rank), 1)
	case 4: // none
	default:
		add(fmt.Sprintf("%s/rank_%d with a space", dir, rank), 1024)
	}
	return files
}

func name(step int) string { return fmt.Sprintf("ckpt.%d", step) }

// write routes and writes files.
func write(s *Session, files []file) error {
	for _, f := range files {
		path, err := s.Route(filepath.Join(s.prefix.Dir, f.name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, f.data, 0o600); err != nil {
			return err
		}
		if err := errors.Join(os.Chtimes(path, f.time, f.time), os.Chmod(path, f.mode)); err != nil {
			return err
		}
	}
	return nil
}

// checkpoint writes the checkpoint of a step.
func checkpoint(s *Session, rank, step int) error { return output(s, rank, step, Checkpoint) }

func output(s *Session, rank, step int, flags Flags) error {
	if err := s.StartOutput(name(step), flags); err != nil {
		return fmt.Errorf("StartOutput: %w", err)
	}
	// The other ranks wait for one that could not write its files.
	failed := write(s, contents(step, rank))
	if err := s.CompleteOutput(failed == nil); err != nil {
		return errors.Join(failed, fmt.Errorf("CompleteOutput: %w", err))
	}
	return failed
}

// steps is a program that writes checkpoints and is killed.
func steps(list ...int) func(s *Session, rank int) error {
	return func(s *Session, rank int) error {
		for _, step := range list {
			if err := checkpoint(s, rank, step); err != nil {
				return err
			}
		}
		return nil
	}
}

// same compares a file with what was written.
func same(path string, f file) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case !bytes.Equal(data, f.data):
		return fmt.Errorf("%s: other bytes than were written", path)
	case info.Mode() != f.mode:
		return fmt.Errorf("%s: mode %v, was written with %v", path, info.Mode(), f.mode)
	case !storagetest.SameTime(path, info, f.time):
		return fmt.Errorf("%s: time %v, was written with %v", path, info.ModTime(), f.time)
	}
	return nil
}

// offered returns the name of the checkpoint to restart from, "" if there is none.
func offered(s *Session) (string, error) {
	name, ok, err := s.HaveRestart()
	if err == nil && ok != (name != "") {
		err = fmt.Errorf("HaveRestart says %v and names %q", ok, name)
	}
	return name, err
}

// restartAt reads the checkpoint it is offered, which has to be that of a step
// (0: none), and have all that was written in it.
func restartAt(s *Session, rank, step int) error {
	got, err := offered(s)
	if err != nil {
		return fmt.Errorf("HaveRestart: %w", err)
	}
	want := ""
	if step > 0 {
		want = name(step)
	}
	if got != want {
		return fmt.Errorf("offered %q to restart from, want %q", got, want)
	}
	if step == 0 {
		return nil
	}
	return read(s, rank, step)
}

func read(s *Session, rank, step int) error {
	got, err := s.StartRestart()
	if err != nil || got != name(step) {
		return fmt.Errorf("StartRestart: %q, %v", got, err)
	}
	for _, f := range contents(step, rank) {
		path, e := s.Route(filepath.Join(s.prefix.Dir, f.name))
		if e == nil {
			e = same(path, f)
		}
		if err == nil {
			err = e
		}
	}
	if err := mpi.Agree(s.world, err); err != nil {
		return err
	}
	if err := s.CompleteRestart(true); err != nil {
		return fmt.Errorf("CompleteRestart: %w", err)
	}
	return nil
}

// restarts is a program that restarts from a step and is killed.
func restarts(step int) func(s *Session, rank int) error {
	return func(s *Session, rank int) error { return restartAt(s, rank, step) }
}

// change replaces what a file holds, and leaves mode and times alone.
func (c *cluster) change(path string, f func(data []byte) []byte) {
	c.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		c.t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		c.t.Fatal(err)
	}
	err = errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, f(data), 0o600), os.Chmod(path, info.Mode()),
		os.Chtimes(path, info.ModTime(), info.ModTime()))
	if err != nil {
		c.t.Fatal(err)
	}
}

func flip(data []byte) []byte {
	data[len(data)/2] ^= 4
	return data
}

func cut(data []byte) []byte { return data[:len(data)-1] }

// glob returns the only file that matches below the node of a name.
func (c *cluster) glob(pattern string) string {
	c.t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		c.t.Fatalf("%s: %v, %v", pattern, found, err)
	}
	return found[0]
}

// datasets returns the directories of datasets in the cache of a node.
func (c *cluster) datasets(node string) []string {
	c.t.Helper()
	entries, err := os.ReadDir(filepath.Join(c.node(node), "cache/user/scr.job"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// everyRank collects the errors of all ranks, where each is expected to have one.
type everyRank struct {
	mu   sync.Mutex
	errs map[int]error
}

func (e *everyRank) is(rank int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.errs == nil {
		e.errs = map[int]error{}
	}
	e.errs[rank] = err
}

// failed fails the test unless n ranks have an error that says text.
func (e *everyRank) failed(t testing.TB, n int, text string) {
	t.Helper()
	for rank := range n {
		if err := e.errs[rank]; err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("rank %d: error %v, want one with %q", rank, err, text)
		}
	}
}
