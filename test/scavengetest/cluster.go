// Package scavengetest is nodes with storage of their own, for tests of what is
// done once no job is running on them any more. Jobs run on them with the
// library, by mpi/local.
package scavengetest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/session"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/test/storagetest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Cluster is nodes with storage of their own and a prefix directory. Jobs run on
// them with the library; what is tested comes after.
type Cluster struct {
	T    testing.TB
	root string
	env  map[string]string

	mu  sync.Mutex
	log bytes.Buffer
}

// New makes a cluster for jobs with these parameters, NAME=value each.
func New(t testing.TB, env ...string) *Cluster {
	t.Helper()
	root, err := os.MkdirTemp(storagetest.Base(), "goscr-test-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(root) })
	return At(t, root, env...)
}

// At is New for a cluster that another process has made below root.
func At(t testing.TB, root string, env ...string) *Cluster {
	c := &Cluster{T: t, root: root, env: map[string]string{
		"SCR_PREFIX": filepath.Join(root, "prefix"), "SCR_PREFIX_SHARED": "1", // a job that ends as if killed leaves its lock in this process
		"SCR_USER_NAME": "user", "SCR_JOB_ID": "job", "SCR_FLUSH": "0",
		"SCR_CACHE_SIZE": "3", "SCR_MPI_BUF_SIZE": "1k", "SCR_FILE_BUF_SIZE": "1k", "SCR_SET_SIZE": "4", "PWD": root,
	}}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		c.env[name] = value
	}
	return c
}

// logger collects what jobs say.
type logger struct{ *Cluster }

func (l logger) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(p)
}

// Root is the directory that has all of it.
func (c *Cluster) Root() string { return c.root }

// Prefix is the prefix directory.
func (c *Cluster) Prefix() string { return filepath.Join(c.root, "prefix") }

// Path is a file below it.
func (c *Cluster) Path(name string) string { return filepath.Join(c.Prefix(), name) }

// Node is where a node has its storage.
func (c *Cluster) Node(name string) string { return filepath.Join(c.root, "node", name) }

// Control is the control directory of a node.
func (c *Cluster) Control(node string) string { return filepath.Join(c.Node(node), "user/scr.job") }

// Cached is the path of a file in the cache of a node.
func (c *Cluster) Cached(node string, id int, file string) string {
	return filepath.Join(c.Control(node), fmt.Sprintf("scr.dataset.%d", id), file)
}

// Lose loses nodes.
func (c *Cluster) Lose(names ...string) {
	for _, name := range names {
		must(c.T, os.RemoveAll(c.Node(name)))
	}
}

// Job runs f on ranks of which rank r is on nodes[r]. It ends as if killed.
func (c *Cluster) Job(nodes []string, f func(s *session.Session, rank int) error) {
	c.T.Helper()
	_, err := local.Run(len(nodes), local.Options{}, func(world mpi.Comm) error {
		node := nodes[world.Rank()]
		s, err := session.Init(world, session.Options{Log: logger{c}, Environ: func(name string) (string, bool) {
			switch name {
			case "SCR_NODE_NAME":
				return node, true
			case "SCR_CACHE_BASE", "SCR_CNTL_BASE":
				return c.Node(node), true
			}
			value, ok := c.env[name]
			return value, ok
		}})
		if err != nil {
			return err
		}
		return f(s, world.Rank())
	})
	if err != nil {
		c.T.Fatalf("%v\n%s", err, c.log.String())
	}
}

// Four are names of nodes.
var Four = []string{"a", "b", "c", "d"}

// File is what a program writes.
type File struct {
	Name string
	Data []byte
	mode os.FileMode
	time time.Time
}

// Contents are the files of a rank in a step: of very different sizes, some
// empty, some ranks with none.
func Contents(step, rank int) []File {
	random := rand.New(rand.NewPCG(uint64(step), uint64(rank)))
	var files []File
	for i := range []int{2, 1, 3, 0, 1}[rank%5] {
		f := File{Name: fmt.Sprintf("ckpt.%d/rank_%d/file %d", step, rank, i), mode: []os.FileMode{0o600, 0o444}[i%2],
			time: time.Unix(1e9+int64(step), int64(rank*10+i)), Data: make([]byte, random.IntN(20_000)*((i+1)%3))}
		for k := range f.Data {
			f.Data[k] = byte(random.Uint32())
			if i == 1 { // can be compressed
				f.Data[k] &= 3
			}
		}
		files = append(files, f)
	}
	return files
}

// Name is the name of the checkpoint of a step.
func Name(step int) string { return fmt.Sprintf("ckpt.%d", step) }

// Output is a program that writes one dataset.
func (c *Cluster) Output(step int, flags session.Flags) func(s *session.Session, rank int) error {
	return func(s *session.Session, rank int) error {
		if err := s.StartOutput(Name(step), flags); err != nil {
			return err
		}
		for _, f := range Contents(step, rank) {
			path, err := s.Route(c.Path(f.Name))
			if err == nil {
				err = errors.Join(os.WriteFile(path, f.Data, 0o600), os.Chtimes(path, f.time, f.time), os.Chmod(path, f.mode))
			}
			if err != nil {
				return err
			}
		}
		return s.CompleteOutput(true)
	}
}

// Write is a job that writes checkpoints and is killed.
func (c *Cluster) Write(nodes []string, steps ...int) {
	c.T.Helper()
	c.Job(nodes, func(s *session.Session, rank int) error {
		for _, step := range steps {
			if err := c.Output(step, session.Checkpoint)(s, rank); err != nil {
				return err
			}
		}
		return nil
	})
}

// Restarts is a job on other nodes that finds the checkpoint of a step, all of
// it. 0 is none.
func (c *Cluster) Restarts(ranks, step int) {
	c.T.Helper()
	c.Lose(Four...)
	nodes := make([]string, ranks)
	for r := range nodes {
		nodes[r] = fmt.Sprint("new", r)
	}
	defer c.Lose(nodes...)
	c.Job(nodes, func(s *session.Session, rank int) error {
		got, ok, err := s.HaveRestart()
		if err != nil || ok != (step > 0) || ok && got != Name(step) {
			return fmt.Errorf("offered %q, want that of step %d (%v)", got, step, err)
		}
		if !ok {
			return nil
		}
		if _, err := s.StartRestart(); err != nil {
			return err
		}
		for _, f := range Contents(step, rank) {
			path, e := s.Route(c.Path(f.Name))
			if e == nil {
				e = same(path, f)
			}
			err = errors.Join(err, e)
		}
		if err := s.Agree(err); err != nil {
			return err
		}
		return s.CompleteRestart(true)
	})
}

func same(path string, f File) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case !bytes.Equal(data, f.Data):
		return fmt.Errorf("%s: other bytes than were written", path)
	case info.Mode() != f.mode || !storagetest.SameTime(path, info, f.time):
		return fmt.Errorf("%s: mode %v and time %v, was written with %v and %v", path, info.Mode(), info.ModTime(), f.mode, f.time)
	}
	return nil
}

// Change replaces what a file holds, and leaves mode and times alone.
func Change(t testing.TB, path string, f func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	info, err := os.Stat(path)
	must(t, err)
	must(t, errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, f(data), 0o600), os.Chmod(path, info.Mode()),
		os.Chtimes(path, info.ModTime(), info.ModTime())))
}

// Flip flips a bit.
func Flip(data []byte) []byte {
	data[len(data)/2] ^= 4
	return data
}
